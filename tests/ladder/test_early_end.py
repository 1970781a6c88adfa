"""Which running trials of which stages are worth their remaining steps."""

import pytest

from autotune.judge.evidence import Evidence
from autotune.ladder.early_end import best_speed, early_stop
from autotune.records import PhaseMark
from tests.judge.recorded import rows
from tests.ladder.builders import SURVIVOR, learned, quality_view, ran, speed_view, survive_view, trial

SLOW = {"micro": 1, "dynamic": False, "share": 0.5}
FAST = {"micro": 8, "dynamic": False, "share": 0.5}
NOISE = {"tokens_per_s_noise_frac": 0.02, "warmup_steps": 1}
REPEATS = (ran(0, SURVIVOR, 1000.0, **NOISE), ran(1, SURVIVOR, 1010.0, **NOISE))


def reported(*throughputs):
    made = rows(len(throughputs), throughput=list(throughputs))
    return Evidence.from_events([PhaseMark(phase="rollout", at_s=1.0), *made])


def speed_stop(evidence, *others, params=SLOW, **section):
    running = trial(9, params)
    view = speed_view(*REPEATS, *others, running, **{"warmup_steps": 1, **section})
    return early_stop(view, running, evidence, 6)


def test_a_slow_trial_ends_once_its_steady_steps_say_so():
    assert speed_stop(reported(100.0, 500.0)) is None
    stop = speed_stop(reported(100.0, 500.0, 505.0))
    assert (stop.kind, stop.phase) == ("slower_than_best", "rollout")
    assert stop.at_s == reported(100.0, 500.0, 505.0).rows[-1].at_s


def test_a_slow_first_step_is_nobodys_fault():
    """Where the warm-up is found by its times, the first step is left out while there are few."""
    slow_start = reported(100.0, 1000.0, 1005.0)
    assert speed_stop(slow_start, warmup_steps=None) is None
    assert speed_stop(reported(100.0, 500.0, 505.0), warmup_steps=None) is not None


@pytest.mark.parametrize(
    ("evidence", "changes"),
    [
        (reported(100.0, 990.0, 980.0), {}),
        (reported(100.0, 500.0, 505.0), {"end_early": False}),
        (reported(100.0, 500.0, 505.0), {"baseline_repeats": 3}),
        (reported(100.0, 500.0, 505.0), {"params": SURVIVOR}),
        (Evidence(), {}),
    ],
    ids=["as fast", "switched off", "noise not known yet", "the survivor itself", "no step yet"],
)
def test_the_others_run_on(evidence, changes):
    assert speed_stop(evidence, **changes) is None


def test_the_best_is_the_fastest_inside_the_memory_limit():
    view = speed_view(*REPEATS, ran(2, FAST, 1500.0), ran(3, {**FAST, "share": 0.9}, 2000.0, peak=0.95))
    best = best_speed(view)
    assert (best.number, best.tokens_per_s) == (2, 1500.0)
    assert best.low < 1500.0 * 0.97
    assert best.step_noise_freedom == sum(trial.verdict.figures.steps - 2 for trial in REPEATS)


def test_survive_runs_everything_to_its_end():
    running = trial(3, {"x": 1})
    assert early_stop(survive_view(running), running, reported(1.0, 1.0, 1.0), 4) is None


def test_quality_ends_a_curve_that_lies_behind():
    finished = [learned(n, {"lr": n}, [0.1 + 0.01 * (n + 1) * step for step in range(20)]) for n in range(6)]
    running = trial(9, {"lr": 99})
    evidence = Evidence.from_events(rows(10, reward=[0.1] * 10))
    assert early_stop(quality_view(*finished, running), running, evidence, 20).kind == "curve_behind"
    assert early_stop(quality_view(*finished[:3], running), running, evidence, 20) is None
    switched_off = quality_view(*finished, running, end_early=False)
    assert early_stop(switched_off, running, evidence, 20) is None
