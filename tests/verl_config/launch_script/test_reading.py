from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputFileError
from autotune.verl_config.launch_script.reading import parse_launch_script, read_launch_script
from autotune.verl_config.rendering import shell_overrides

DATA = Path(__file__).parents[2] / "data" / "launch_scripts"
WHOLE = """\
#!/bin/bash
set -xeuo pipefail
export VLLM_USE_V1=1 WANDB_API_KEY=secret
export CUDA_VISIBLE_DEVICES=$(seq -s, 0 7)
NNODES=${NNODES:-1}
MODEL_PATH=${MODEL_PATH:-"$HOME/models/Qwen2.5-7B"}
max_prompt=1024; max_response=$((1024 * 4))
ray start --head --num-gpus 8
python3 examples/data_preprocess/gsm8k.py --local_dir $HOME/data
ARGS=(
    # batch
    data.train_batch_size=512
    "data.train_files=['$HOME/data/train.parquet']"
)
PYTHONUNBUFFERED=1 python3 -m verl.trainer.main_ppo --config-name='ppo_trainer.yaml' \\
    "${ARGS[@]}" \\
    actor_rollout_ref.model.path="${MODEL_PATH}" \\
    actor_rollout_ref.rollout.max_model_len=$((max_prompt + max_response)) \\
    +trainer.tags=["a b",c] \\
    trainer.experiment_name="run_$(date +%Y%m%d)" \\
    trainer.nnodes=$NNODES $@ 2>&1 | tee run.log
"""


def test_a_whole_script():
    script = parse_launch_script(WHOLE)
    assert (script.line, script.entry, script.config_name) == (15, "verl.trainer.main_ppo", "ppo_trainer")
    assert script.overrides == {
        "data.train_batch_size": 512,
        "data.train_files": ["$HOME/data/train.parquet"],
        "actor_rollout_ref.model.path": "$HOME/models/Qwen2.5-7B",
        "actor_rollout_ref.rollout.max_model_len": 5120,
        "+trainer.tags": ["a b", "c"],
        "trainer.nnodes": 1,
    }
    assert script.environment == {"VLLM_USE_V1": "1", "WANDB_API_KEY": "secret", "PYTHONUNBUFFERED": "1"}
    assert {one.text for one in script.unresolved} == {
        "trainer.experiment_name=run_$(date +%Y%m%d)",
        "CUDA_VISIBLE_DEVICES=$(seq -s, 0 7)",
    }


def test_outer_variables_may_be_given():
    script = parse_launch_script(WHOLE, outer={"HOME": "/home/me", "NNODES": "4"})
    assert script.overrides["actor_rollout_ref.model.path"] == "/home/me/models/Qwen2.5-7B"
    assert script.overrides["trainer.nnodes"] == 4


def test_a_comment_that_ends_the_command_names_what_never_reaches_verl():
    script = read_launch_script(DATA / "run_qwen3_vl-30b-megatron.sh")
    assert script.config_name == "ppo_megatron_trainer"
    assert "trainer.n_gpus_per_node" not in script.overrides
    stray = [one for one in script.unresolved if "never reaches verl" in one.why]
    assert len(stray) == 12
    assert ("trainer.n_gpus_per_node=8", 74) in {(one.text, one.line) for one in stray}
    path = next(one for one in script.unresolved if one.key == "actor_rollout_ref.model.path")
    assert "RAY_DATA_HOME is not set" in path.why


def test_arrays_and_a_decided_branch_of_a_known_script():
    script = read_launch_script(DATA / "run_qwen2-7b_math_trtllm.sh")
    assert script.overrides["actor_rollout_ref.rollout.max_num_seqs"] == 1024
    assert script.overrides["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 4
    assert [one.key for one in script.unresolved if one.key] == ["trainer.experiment_name"]


def test_dates_in_names_are_named():
    script = read_launch_script(DATA / "qwen2-14b_grpo-lora_2_h100_fsdp_vllm.sh")
    keys = {one.key for one in script.unresolved if one.key}
    assert keys == {"trainer.project_name", "trainer.experiment_name"}
    assert all("`$(date +%Y%m%d)`" in one.why for one in script.unresolved)


@pytest.mark.parametrize(
    ("entry", "module"),
    [
        ("recipe/dapo/main_dapo.py", "recipe.dapo.main_dapo"),
        ("./a/main_x.py", "a.main_x"),
        ("/x/y.py", "/x/y.py"),
    ],
)
def test_a_file_as_entry(entry, module):
    assert parse_launch_script(f"python3 {entry} actor_rollout_ref.rollout.n=4").entry == module


def test_of_several_trainings_the_first_is_read_and_the_others_are_named():
    text = "for n in 1 2; do python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=$n; done"
    script = parse_launch_script(text)
    assert script.overrides == {"actor_rollout_ref.rollout.n": 1}
    assert "another training" in script.unresolved[0].why


def test_a_training_that_may_not_be_started_says_so():
    text = "if [ -d x ]; then\n  python -m verl.trainer.main_ppo a.b=1\nfi"
    assert "`[ -d x ]` (line 1)" in parse_launch_script(text).unresolved[0].why


def test_text_handed_to_another_shell_is_followed():
    script = parse_launch_script('N=4\nbash -c "python3 -m verl.trainer.main_ppo trainer.nnodes=$N"')
    assert script.overrides == {"trainer.nnodes": 4}


@pytest.mark.parametrize("text", ["", "echo hi", "python3 -m verl.trainer.main_eval a=1", "((", "\0\xff"])
def test_without_a_training_it_says_what_it_found(text):
    with pytest.raises(InputFileError, match=r"verl\.trainer\.main_ppo"):
        parse_launch_script(text)


def test_a_missing_file_is_a_fault(tmp_path):
    with pytest.raises(InputFileError, match="No such file"):
        read_launch_script(tmp_path / "gone.sh")


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
KEYS = st.from_regex(r"\A[a-z][a-z_0-9]{0,8}\.[a-z][a-z_0-9]{0,8}\Z")


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_for_a_shell_reads_back_the_same(overrides):
    words = " \\\n    ".join(shell_overrides(overrides))
    script = parse_launch_script(f"python3 -m verl.trainer.main_ppo \\\n    {words}\n")
    assert script.unresolved == ()
    assert script.overrides == overrides


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(text):
    with contextlib.suppress(InputFileError):
        parse_launch_script(f"{text}\npython3 -m verl.trainer.main_ppo a.b=1")
