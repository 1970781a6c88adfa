"""What a session may change, over verl's own configuration."""

import pytest

from autotune.job.loading import load_job
from autotune.job.shipped import shipped
from autotune.verl_config.compose import compose
from autotune.verl_plugin.warm.live_keys import (
    ENGINE_KEYS,
    LIVE_KEYS,
    MODEL_KEYS,
    cold_key,
    cold_only,
    is_live,
)

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."


@pytest.fixture(scope="module")
def job():
    return load_job(shipped("jobs", "tiny-cpu"))


@pytest.fixture(scope="module")
def flat(job):
    return compose(job.verl, {}).flat


@pytest.mark.parametrize(
    "change",
    [
        {ACTOR + "ppo_micro_batch_size_per_gpu": 8},
        {
            ACTOR + "use_dynamic_bsz": True,
            ROLLOUT + "log_prob_use_dynamic_bsz": True,
            "actor_rollout_ref.ref.log_prob_use_dynamic_bsz": True,
        },
        {ACTOR + "optim.lr": 1e-3, ACTOR + "optim.lr_warmup_steps": 2},
        {ACTOR + "kl_loss_coef": 0.1, ACTOR + "clip_ratio_high": 0.3, ACTOR + "entropy_coeff": 0.01},
        {ROLLOUT + "n": 4},
        {ROLLOUT + "temperature": 0.8},
        {ROLLOUT + "max_num_seqs": 4},
        {ACTOR + "fsdp_config.param_offload": True, "actor_rollout_ref.ref.fsdp_config.param_offload": True},
        {"actor_rollout_ref.model.enable_gradient_checkpointing": False},
        {"data.train_batch_size": 16, ACTOR + "ppo_mini_batch_size": 16},
        {"data.seed": 7, "trainer.total_training_steps": 3},
        {"trainer.experiment_name": "j/speed-1-0"},
    ],
)
def test_what_follows_from_a_live_key_is_live_too(job, flat, change):
    """Interpolations repeat a value under other keys; each of those has to be listed as well."""
    changed = compose(job.verl, change).flat
    assert any(changed[key] != flat.get(key) for key in changed)
    assert cold_key(changed) == cold_key(flat)


@pytest.mark.parametrize(
    "change",
    [
        {ROLLOUT + "tensor_model_parallel_size": 2},
        {"data.max_response_length": 64},
        {ACTOR + "fsdp_config.model_dtype": "bf16"},
        {ACTOR + "use_kl_loss": False},
        {"actor_rollout_ref.model.path": "another/model"},
        {"algorithm.adv_estimator": "gae"},
    ],
)
def test_what_shapes_the_processes_is_cold(job, flat, change):
    assert cold_key(compose(job.verl, change).flat) != cold_key(flat)


def test_every_listed_key_is_one_of_verls(flat):
    # Two are verl's own only where the actor or critic does not count tokens.
    optional = {"ppo_infer_micro_batch_size_per_gpu", "ppo_infer_max_token_len_per_gpu"}
    unknown = {key for key in (*LIVE_KEYS, *ENGINE_KEYS, *MODEL_KEYS) if key not in flat}
    assert {key.rsplit(".", 1)[1] for key in unknown} <= optional
    assert all(is_live(key) for key in LIVE_KEYS)


def test_a_job_that_sessions_can_run(flat):
    assert cold_only(flat) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ACTOR + "strategy", "megatron"),
        (ROLLOUT + "name", "sglang"),
        ("trainer.v1.trainer_mode", "separate_async"),
        ("trainer.use_v1", False),
        ("actor_rollout_ref.model.lora_rank", 8),
        ("algorithm.filter_groups.enable", True),
        (ACTOR + "checkpoint.save_contents", ["model"]),
    ],
)
def test_what_sessions_are_not_built_for_is_named(flat, key, value):
    assert key in cold_only({**flat, key: value})
