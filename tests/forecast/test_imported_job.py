from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from autotune.forecast.hardware import Gpu, Host
from autotune.forecast.imported_job import BUDGET_KEY, Surroundings, imported_job, token_budget
from autotune.forecast.model_facts import model_facts
from autotune.job.loading import load_job
from autotune.job.shipped import shipped, shipped_names
from autotune.verl_config.launch_script.reading import LaunchScript, Unresolved
from autotune.verl_config.validation import PromptLengths

LENGTHS = PromptLengths(
    rows=7473, counted=7473, mean=100.0, quantiles_tokens={0.5: 95, 0.99: 210}, longest=260,
    over_limit_frac=0.002, masks_fit=True,
)  # fmt: skip
SPACES = [
    yaml.safe_load(shipped("search_spaces", name).read_text()) for name in shipped_names("search_spaces")
]
FLAT = {
    **dict.fromkeys(key for space in SPACES for key in space["parameters"]),
    "data.max_prompt_length": 256,
    "data.max_response_length": 1000,
    "trainer.n_gpus_per_node": 4,
    "actor_rollout_ref.actor.use_kl_loss": True,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 10,
}
LAUNCH = LaunchScript(
    line=7,
    entry="verl.trainer.main_ppo",
    config_path=None,
    config_name="ppo_trainer",
    overrides={"trainer.n_gpus_per_node": 4, "+a.b": ["x: y", 'q"q'], "a.lr": 1e-6, "a.none": None},
    environment={"VLLM_USE_V1": "1", "WANDB_API_KEY": "secret", "CUDA_VISIBLE_DEVICES": "0"},
    unresolved=(Unresolved(9, "trainer.nnodes=$N\nevil: true", "N is not set", "trainer.nnodes"),),
)


def written(tmp_path, flat=FLAT, around=None, launch=LAUNCH, device="gpu"):
    made = imported_job("mine", launch, flat, "run.sh", around or Surroundings(), device)
    file = tmp_path / "mine.yaml"
    file.write_text(made.text)
    return made, load_job(file)


def test_the_launch_survives_the_job_file(tmp_path):
    made, job = written(tmp_path)
    assert job.verl.overrides == LAUNCH.overrides
    assert job.verl.environment == {"VLLM_USE_V1": "1"}
    assert made.withheld == ("WANDB_API_KEY", "CUDA_VISIBLE_DEVICES")
    assert '"secret"' not in made.text
    assert (job.resources.gpus_per_trial, made.algorithm, job.guards.kl_metric) == (
        4,
        "grpo",
        "actor/kl_loss",
    )


def test_what_is_unresolved_is_a_comment_with_its_reason(tmp_path):
    made, job = written(tmp_path)
    assert "# line 9: trainer.nnodes=$N evil: true -- N is not set" in made.text
    assert "evil" not in yaml.safe_load(made.text)
    assert "trainer.nnodes" not in job.verl.overrides


@pytest.mark.parametrize(
    ("changes", "metric", "quality"),
    [
        (
            {"algorithm.adv_estimator": "gae", "algorithm.use_kl_in_reward": True},
            "actor/reward_kl_penalty",
            "quality_ppo",
        ),
        ({}, None, "quality_grpo"),
    ],
)
def test_stages_and_guards_by_algorithm(tmp_path, changes, metric, quality):
    flat = {**FLAT, "actor_rollout_ref.actor.use_kl_loss": False, **changes}
    _, job = written(tmp_path, flat=flat)
    assert job.stages.quality.search_space.name == quality
    assert (job.guards.kl_limit is not None) is (metric is not None)
    assert metric is None or job.guards.kl_metric == metric


def test_a_space_leaves_out_what_the_engine_does_not_have(tmp_path):
    _, job = written(tmp_path)
    assert job.stages.survive.search_space.name == "survive_fsdp"
    without = {key: value for key, value in FLAT.items() if "fsdp" not in key}
    _, job = written(tmp_path, flat=without)
    parameters = job.stages.survive.search_space.parameters
    assert "actor_rollout_ref.rollout.gpu_memory_utilization" in parameters
    assert not [key for key in parameters if "fsdp" in key]


def test_what_was_found_out_stands_at_the_top(tmp_path):
    gpus = [Gpu(index=i, uuid=str(i), name="H100", total_gb=79.6, used_gb=0.0) for i in range(8)]
    around = Surroundings(
        gpus=gpus,
        host=Host(cpu_count=64, memory_gb=512.0),
        model=model_facts("Qwen/Qwen2-7B"),
        lengths=LENGTHS,
    )
    made, _ = written(tmp_path, around=around)
    top = " ".join(made.text.partition("name:")[0].replace("#", "").split())
    assert "8 x H100 with 80 GB, 64 processors and 512 GB." in top
    assert "qwen2, 28 layers of 3584, 7.62 billion parameters" in top
    assert "7473 prompts; tokens with the chat template: 50% 95, 99% 210, longest 260; 0.2% over" in top
    assert f"({BUDGET_KEY}): 6000." in top


def test_the_token_budget_follows_the_data(tmp_path):
    flat = {**FLAT, "actor_rollout_ref.actor.use_dynamic_bsz": True}
    budget = token_budget(LAUNCH, flat, LENGTHS)
    assert (budget.tokens, budget.is_set) == (6000, True)  # (100 + 1000 / 2) x 10
    _, job = written(tmp_path, flat=flat, around=Surroundings(lengths=LENGTHS))
    assert job.verl.overrides[BUDGET_KEY] == 6000


def test_the_token_budget_holds_the_longest_sample():
    flat = {**FLAT, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1}
    assert token_budget(LAUNCH, flat, LENGTHS).tokens == 1256


def test_a_budget_of_the_users_own_stays():
    launch = replace(LAUNCH, overrides={BUDGET_KEY: 999})
    flat = {**FLAT, "actor_rollout_ref.actor.use_dynamic_bsz": True}
    assert not token_budget(launch, flat, LENGTHS).is_set


def test_without_lengths_there_is_no_budget():
    assert token_budget(LAUNCH, FLAT, None) is None
