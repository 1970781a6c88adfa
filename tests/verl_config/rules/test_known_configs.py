"""No false alarm on public launch scripts, under the very verl that they were written for."""

import gzip
import json
from pathlib import Path

import pytest

from autotune.cli.memory_answer import known_model
from autotune.verl_config.rules.rule import Setting, Severity
from autotune.verl_config.rules.table import findings
from autotune.verl_config.schema.released import Schema

DATA = Path(__file__).parents[2] / "data" / "verl_config"
SNAPSHOT = json.loads(gzip.decompress((DATA / "snapshot_b178a3cd.json.gz").read_bytes()))
ROWS = json.loads(gzip.decompress((DATA / "known_configs.json.gz").read_bytes()))

# Each of these is a fault in the script, or in what of it was recorded.
TRUE_FAULTS = {
    # model.torch_dtype is in no verl: Hydra refuses it.
    "cispo_trainer/run_cispo_qwen2_5_0_5b_gsm8k.sh": {"unknown_key"},
    # data.gen_batch_size came with verl 0.9: Hydra refuses it before.
    "gspo_trainer/run_qwen3_32b_gspo_npu.sh": {"unknown_key"},
    # resume_from_path beside resume_mode=auto, which does not read it.
    "grpo_trainer/run_qwen3-32b_npu.sh": {"resume_path_unread"},
    # multi_stage_wake_up=True: at this commit a field of the dataclass, read by nothing.
    "grpo_trainer/run_qwen2_5_vl-7b-sglang.sh": {"dead_key"},
    # A comment behind a line's backslash ends the command: rollout.name is not passed.
    "ppo_trainer/run_deepseek7b_llm_pfppo.sh": {"rollout_engine"},
    # Recorded without the overrides that the script keeps in arrays: rollout.name is missing.
    "grpo_trainer/run_qwen2-32b_sglang_fsdp_npu.sh": {"rollout_engine"},
    "gspo_trainer/run_qwen30b_gspo.sh": {"rollout_engine"},
    "sapo_trainer/run_qwen30b_sapo.sh": {"rollout_engine"},
}


def setting(row):
    overrides = row["overrides"]
    name = "ppo_megatron_trainer" if overrides.get("model_engine") == "megatron" else row["config_name"]
    given = {key.lstrip("+"): value for key, value in overrides.items()}
    a_node, nodes = given.get("trainer.n_gpus_per_node", 8), given.get("trainer.nnodes", 1)
    whole = isinstance(a_node, int) and isinstance(nodes, int)
    return Setting(
        schema=Schema("0.7.1", name, SNAPSHOT[name]),
        given=given,
        added=frozenset(key.lstrip("+") for key in overrides if key.startswith("+")),
        gpus=a_node * nodes if whole else 8,
        model=known_model(given.get("actor_rollout_ref.model.path", "")),
    )


@pytest.mark.parametrize("row", ROWS, ids=[row["source"].removeprefix("examples/") for row in ROWS])
def test_only_true_faults_are_found(row):
    faults = {f.rule for f in findings(setting(row)) if f.severity is not Severity.NOTE}
    assert faults == TRUE_FAULTS.get(row["source"].removeprefix("examples/"), set())
