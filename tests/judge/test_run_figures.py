import math

import pytest

from autotune.judge.run_figures import (
    RunFigures,
    cautious_elasticity,
    length_elasticity,
    log_speed_gain,
    run_figures,
)
from tests.judge.recorded import metric_rows, rows


def figures_of(made, **more):
    return run_figures(
        made, **{"warmup_steps": None, "validation_every": None, "peak_memory_gb": 1.5, **more}
    )


def run(speed=1000.0, tokens=100.0, log_steps=()):
    return RunFigures(
        tokens_per_s_per_gpu=speed,
        sequence_tokens=tokens,
        reward=0.5,
        validation_reward=None,
        peak_memory_gb=None,
        log_steps=log_steps,
    )


def test_the_recorded_run():
    measured = figures_of(metric_rows("grpo_tiny_40_steps"))
    assert measured.tokens_per_s_per_gpu == pytest.approx(925, rel=0.02)
    assert measured.sequence_tokens == pytest.approx(15.9, rel=0.01)
    assert measured.reward > 0.9
    assert measured.peak_memory_gb == 1.5
    assert len(measured.log_steps) == 39


def test_validation_costs_as_often_as_the_users_own_run_validates():
    made = rows(4, every_s=8.0, throughput=1000.0)
    made[-1].values["timing_s/testing"] = 20.0
    assert figures_of(made).tokens_per_s_per_gpu == 1000.0
    assert figures_of(made, validation_every=10).tokens_per_s_per_gpu == pytest.approx(1000.0 * 8 / 10)
    assert figures_of(made, validation_every=-1).tokens_per_s_per_gpu == 1000.0


def steps(elasticity, level=0.0, jitter=0.0):
    made = []
    for index in range(12):
        x = math.log(100 + 20 * (index % 6))
        made.append((x, level + elasticity * x + jitter * (-1) ** index))
    return tuple(made)


def test_elasticity_is_read_from_steps_of_different_lengths():
    low, high = length_elasticity(
        [run(log_steps=steps(0.5)), run(log_steps=steps(0.5, level=3.0, jitter=0.01))]
    )
    assert 0.4 < low < 0.5 < high < 0.6


def test_steps_of_one_length_say_nothing():
    assert length_elasticity([run(log_steps=((4.0, 1.0),) * 9)]) == (0.0, 1.0)
    assert length_elasticity([]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("elasticity", "gain"),
    [(1.0, 1.2), (0.0, 1.0), (0.5, 1.2**0.5)],
    ids=["time goes with tokens", "time is constant", "between"],
)
def test_speed_that_came_with_longer_responses_is_no_gain(elasticity, gain):
    longer = log_speed_gain(run(1200.0, 120.0), run(1000.0, 100.0), elasticity)
    assert math.exp(longer) == pytest.approx(gain)


LONGER = (run(1200.0, 120.0), run(1000.0, 100.0))
SHORTER = (run(900.0, 80.0), run(1000.0, 100.0))


@pytest.mark.parametrize(
    ("pairs", "elasticity"),
    [([LONGER], 0.2), ([SHORTER], 0.7), ([LONGER, SHORTER], 0.7), ([(run(), run())], 0.7)],
    ids=["longer", "shorter", "shorter on the whole", "lengths unknown"],
)
def test_lengths_count_as_little_to_the_winners_favour_as_may_be(pairs, elasticity):
    believable = (0.2, 0.7)
    assert cautious_elasticity(pairs, believable) == elasticity
    gains = [sum(log_speed_gain(*pair, one) for pair in pairs) for one in believable]
    assert sum(log_speed_gain(*pair, elasticity) for pair in pairs) == pytest.approx(min(gains))


def test_nothing_measured_gains_nothing():
    assert log_speed_gain(run(None), run(), 0.5) is None
