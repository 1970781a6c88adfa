"""How far over the device: sizes of micro batches by phase, and the line through measured peaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.forecast.peak_model import micro_batch_tokens, predicted_peak_frac
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
        ("update_actor", {ACTOR + "ppo_micro_batch_size_per_gpu": None}, None),
        ("update_actor", {ACTOR + "ppo_mini_batch_size": None}, 8 * 1024),
        ("old_log_prob", {}, 24576),
        ("ref_log_prob", {}, 2 * 1024),
        # The critic is packed by a budget of its own, which verl's YAML does not have.
        ("update_critic", {}, 32768),
        ("values", {"critic.ppo_infer_max_token_len_per_gpu": 4096}, 4096),
        ("values", {"data.train_batch_size": 8}, 8 * 4 // 2 * 1024),
        ("rollout", {}, None),
        ("weight_sync", {}, None),
    ],
)
def test_micro_batch_tokens(phase, changes, expected):
    assert micro_batch_tokens({**JOB, **changes}, phase) == expected


@pytest.mark.parametrize("phase", PHASES)
def test_an_empty_configuration_is_no_error(phase):
    tokens = micro_batch_tokens({}, phase)
    assert tokens is None or tokens > 0


@pytest.mark.parametrize(
    ("known", "tokens", "expected"),
    [
        ([(4096, 0.5), (8192, 0.7)], 16384, 1.1),
        ([(4096, 0.5), (8192, 0.7), (4096, 0.5)], 32768, 1.9),
        # One size: all of it is taken to scale with the tokens.
        ([(4096, 0.6)], 8192, 1.2),
        ([(4096, 0.5), (4096, 0.7)], 8192, 1.2),
        # It did not fit, whatever the line says.
        ([(4096, 0.3), (8192, 0.4)], 8192, 1.02),
        ([(4096, 0.7), (8192, 0.5)], 65536, 1.02),
        ([(4096, 0.3)], None, 1.02),
        ([], 8192, 1.02),
        ([(0, 0.5)], 8192, 1.02),
    ],
)
def test_predicted_peak(known, tokens, expected):
    assert predicted_peak_frac(known, tokens) == pytest.approx(expected)


POINTS = st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.01, 1.0)), max_size=8)


@given(POINTS, st.floats(1, 1e6), st.floats(1, 1e6))
def test_more_tokens_never_predict_less(known, one, other):
    small, large = sorted((one, other))
    low, high = predicted_peak_frac(known, small), predicted_peak_frac(known, large)
    assert 1.0 < low <= high * (1 + 1e-9)
