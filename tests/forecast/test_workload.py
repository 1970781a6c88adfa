"""Tokens of the largest micro batch that a phase may see."""

import pytest

from autotune.forecast.workload import largest_micro_batch_tokens
from autotune.judge.phases import PHASES

ACTOR, ROLLOUT, REFERENCE = (f"actor_rollout_ref.{part}." for part in ("actor", "rollout", "ref"))
JOB = {
    "data.max_prompt_length": 512,
    "data.max_response_length": 512,
    "data.train_batch_size": 64,
    "trainer.n_gpus_per_node": 2,
    "trainer.nnodes": 1,
    ROLLOUT + "n": 4,
    ACTOR + "ppo_mini_batch_size": 16,
    ACTOR + "use_dynamic_bsz": False,
    ACTOR + "ppo_micro_batch_size_per_gpu": 8,
    ACTOR + "ppo_max_token_len_per_gpu": 16384,
    ROLLOUT + "log_prob_use_dynamic_bsz": True,
    ROLLOUT + "log_prob_micro_batch_size_per_gpu": None,
    ROLLOUT + "log_prob_max_token_len_per_gpu": 24576,
    REFERENCE + "log_prob_use_dynamic_bsz": False,
    REFERENCE + "log_prob_micro_batch_size_per_gpu": 2,
}


@pytest.mark.parametrize(
    ("phase", "changes", "expected"),
    [
        ("update_actor", {}, 8 * 1024),
        ("update_actor", {ACTOR + "use_dynamic_bsz": True}, 16384),
        # A rank's share of a mini batch is 16 prompts x 4 responses / 2 ranks = 32 sequences.
        ("update_actor", {ACTOR + "ppo_micro_batch_size_per_gpu": 100}, 32 * 1024),
        ("old_log_prob", {}, 24576),
        ("ref_log_prob", {}, 2 * 1024),
        ("rollout", {}, None),
        ("weight_sync", {}, None),
    ],
)
def test_largest_micro_batch_tokens(phase, changes, expected):
    assert largest_micro_batch_tokens({**JOB, **changes}, phase, 2) == expected


@pytest.mark.parametrize("phase", PHASES)
def test_an_empty_configuration_is_no_error(phase):
    tokens = largest_micro_batch_tokens({}, phase, 1)
    assert tokens is None or tokens > 0
