from dataclasses import replace

import pytest

from autotune.judge.comparison import comparisons, is_worse
from autotune.judge.run_figures import RunFigures
from autotune.records import FinishOutcome

BASE = RunFigures(
    tokens_per_s_per_gpu=1000.0,
    sequence_tokens=None,
    reward=0.50,
    validation_reward=None,
    peak_memory_gb=50.0,
)
JITTER = (1.00, 1.02, 0.99, 1.01, 0.98, 1.00)


def pairs(speed=1.0, **changes):
    made = []
    for jitter in JITTER:
        winner = replace(BASE, tokens_per_s_per_gpu=1000.0 * speed * jitter, **changes)
        made.append((winner, BASE))
    return made


def compared(made, **more):
    found = comparisons(made, **{"alpha": 0.05, "least_gain_frac": 0.02, **more})
    return {comparison.metric: comparison for comparison in found}


@pytest.mark.parametrize(
    ("speed", "outcome"),
    [(1.3, "better"), (1.02, "better"), (1.01, "inconclusive"), (1.0, "not better"), (0.8, "not better")],
)
def test_speed_is_called_by_its_interval(speed, outcome):
    found = compared(pairs(speed))["tokens_per_s_per_gpu"]
    assert found.outcome is FinishOutcome(outcome)
    assert found.low < found.gain < found.high
    assert found.gain == pytest.approx(speed - 1.0, abs=0.005)
    assert found.reference == 1000.0


def test_rewards_are_compared_by_their_difference():
    found = compared(pairs(reward=0.62))["reward"]
    assert (found.gain, found.low, found.high) == pytest.approx((0.12, 0.12, 0.12))
    assert found.outcome is FinishOutcome.BETTER


def test_less_memory_is_better():
    found = compared(pairs(peak_memory_gb=40.0))["peak_memory_gb"]
    assert found.gain == -10.0
    assert found.outcome is FinishOutcome.BETTER


def test_what_one_run_lacks_is_not_compared():
    made = pairs()
    made[2] = (replace(made[2][0], reward=None), BASE)
    assert set(compared(made)) == {"tokens_per_s_per_gpu", "peak_memory_gb"}


def test_one_pair_says_nothing():
    assert compared(pairs()[:1]) == {}


@pytest.mark.parametrize(("speed", "worse"), [(0.95, True), (0.985, False), (1.2, False)])
def test_worse_is_a_shown_loss_that_matters(speed, worse):
    assert is_worse(compared(pairs(speed))["tokens_per_s_per_gpu"], 0.02) is worse


def test_later_pairs_change_what_is_claimed_and_not_what_was_decided():
    alone = compared(pairs(1.02))["tokens_per_s_per_gpu"]
    after = compared(pairs(1.02), after=pairs(0.99)[:3])["tokens_per_s_per_gpu"]
    assert after.outcome is alone.outcome is FinishOutcome.BETTER
    assert after.gain == alone.gain
    assert after.claimed < alone.claimed
    assert after.low <= after.claimed <= after.high


def test_later_pairs_that_lack_a_metric_do_not_count():
    lacking = [(replace(BASE, reward=None), BASE)]
    assert compared(pairs(reward=0.6), after=lacking)["reward"].claimed == pytest.approx(0.1)
