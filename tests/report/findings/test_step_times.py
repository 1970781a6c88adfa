"""A step's time by phase, from verl's timers."""

import pytest

from autotune.records import MetricRow
from autotune.report.findings.step_times import step_times


def rows(*step_s):
    return [
        MetricRow(
            step=step,
            at_s=float(step),
            values={
                "timing_s/step": value,
                "timing_s/gen": 0.5 * value,
                "timing_s/update_actor": 0.3 * value,
                "timing_s/testing": 100.0,
                "perf/total_num_tokens": 1000.0,
            },
        )
        for step, value in enumerate(step_s)
    ]


def test_medians_of_the_steady_steps_with_the_rest_as_other():
    times = step_times("survivor", ["speed/0"], [rows(90.0, 50.0, 10.0, 12.0, 14.0)], warmup_steps=1)
    assert times.steps == 3
    assert times.step_s == 12.0
    assert times.by_phase_s == pytest.approx({"rollout": 6.0, "update_actor": 3.6, "other": 2.4})
    assert times.tokens_per_step == 1000.0


def test_each_run_drops_its_own_warm_up():
    runs = [rows(0.0, 99.0, 10.0), rows(0.0, 99.0, 20.0)]
    assert step_times("survivor", ["a", "b"], runs, warmup_steps=1).step_s == 15.0


def test_overlapping_phases_leave_nothing_over():
    row = MetricRow(step=1, at_s=1.0, values={"timing_s/step": 1.0, "timing_s/gen": 0.8, "timing_s/ref": 0.7})
    assert step_times("x", [], [[row]], warmup_steps=0).by_phase_s["other"] == 0.0


@pytest.mark.parametrize("runs", [[], [[]], [[MetricRow(step=1, at_s=1.0, values={"a": 1.0})]]])
def test_without_timers_there_is_nothing_to_say(runs):
    assert step_times("x", [], runs, warmup_steps=0) is None


def test_survivor_against_fastest(studied):
    survivor, fastest = studied.step_times
    assert (survivor.trials, fastest.trials) == (("speed/0", "speed/1"), ("speed/3",))
    assert survivor.steps == 38
    assert fastest.step_s < survivor.step_s
    assert "validation" not in survivor.by_phase_s
