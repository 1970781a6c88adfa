"""Objectives and graded constraints, by table."""

import pytest

from autotune.ladder.objective import constraints, intermediate, objective, survived
from autotune.records import RUNGS, Failure, FailureGroup, Outcome, Verdict
from tests.ladder.builders import completed, failed, figures, quality_section, speed_section, survive_section

SURVIVE, SPEED, QUALITY = RUNGS


@pytest.mark.parametrize(
    ("steps", "asked", "peak", "expected"),
    [
        (0, 4, None, 0.0),
        (1, 4, 0.9, 0.25),
        (4, 4, 0.7, 1.3),
        (4, 4, None, 1.0),
        (4, 4, 1.2, 1.0),
        (5, 4, None, 1.0),
        (0, 0, None, 0.0),
    ],
)
def test_survived(steps, asked, peak, expected):
    assert survived(figures(steps, asked, peak=peak)) == pytest.approx(expected)


def test_more_steps_always_beat_more_head_room():
    assert survived(figures(3, 4, peak=0.01)) < survived(figures(4, 4, peak=0.99))


@pytest.mark.parametrize(
    ("stage", "verdict", "expected"),
    [
        (SURVIVE, failed("oom_gpu_actor_update", steps=2), 0.5),
        (SURVIVE, completed(peak=0.6), 1.4),
        (SPEED, completed(tokens_per_s_per_gpu=900.0), 900.0),
        (SPEED, completed(), None),
        (SPEED, failed("nan_inf", tokens_per_s_per_gpu=900.0), None),
        (QUALITY, completed(reward=0.4), 0.4),
        (QUALITY, completed(reward=0.0), 0.0),
        (QUALITY, failed("kl_drift", reward=0.4), None),
    ],
)
def test_objective(stage, verdict, expected):
    assert objective(stage, verdict) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("stage", "values", "expected"),
    [
        (SURVIVE, {}, 0.5),
        (SPEED, {"perf/throughput": 800.0}, 800.0),
        (SPEED, {}, None),
        (QUALITY, {"critic/rewards/mean": 0.3}, 0.3),
        (QUALITY, {"critic/rewards/mean": None}, None),
    ],
)
def test_intermediate(stage, values, expected):
    assert intermediate(stage, values, step=2, steps=4) == expected


@pytest.mark.parametrize(
    ("verdict", "expected_frac", "expected"),
    [
        (completed(peak=0.6), None, {"memory_update_actor": -0.25}),
        (completed(peak=0.88), None, {"memory_update_actor": 0.1}),
        (completed(peak=None), None, {}),
        # The prediction takes the place of what the failed phase had reached when it died.
        (failed("oom_gpu_actor_update", peak=0.76), {"update_actor": 1.6}, {"memory_update_actor": 1.0}),
        # Of the other phases only what was measured counts.
        (
            failed("oom_gpu_actor_update", peak=0.76),
            {"update_actor": 1.6, "rollout": 0.4},
            {"memory_update_actor": 1.0},
        ),
        # It did not fit, whatever was expected of it.
        (failed("oom_gpu_actor_update", peak=0.76), {"update_actor": 0.7}, {"memory_update_actor": 0.275}),
        (
            failed("oom_gpu_log_prob", phase="old_log_prob", peak=None),
            {"old_log_prob": 1.2},
            {"memory_old_log_prob": 0.5},
        ),
        (failed("oom_gpu_actor_update", peak=None), None, {"memory_update_actor": 0.275}),
        (failed("nan_inf", peak=0.6), None, {"memory_update_actor": -0.25, "nan_inf": 0.1}),
        (failed("hang_update", peak=None), None, {"hang_update": 0.1}),
        (failed("port_conflict", peak=None), None, {}),
    ],
)
def test_constraints_of_survive(verdict, expected_frac, expected):
    found = constraints(SURVIVE, survive_section(), verdict, expected_frac=expected_frac)
    assert found == pytest.approx(expected)


def test_constraints_know_the_jobs_own_limit():
    found = constraints(SPEED, speed_section(peak_memory_frac=0.5), completed(peak=0.6))
    assert found == pytest.approx({"memory_update_actor": 0.2})


def test_what_verl_refuses_is_infeasible():
    failure = Failure(
        kind="config_validation", group=FailureGroup.CANDIDATE, phase="config", cause="M must divide B"
    )
    refused = Verdict(outcome=Outcome.REJECTED, figures=figures(0, 4, peak=None), failure=failure)
    assert constraints(SURVIVE, survive_section(), refused) == {"config_validation": 1.0}


def test_what_the_forecast_rejects_is_graded_in_every_phase():
    failure = Failure(
        kind="oom_gpu_actor_update", group=FailureGroup.CANDIDATE, phase="update_actor", cause="not launched"
    )
    rejected = Verdict(outcome=Outcome.REJECTED, figures=figures(0, 4, peak=None), failure=failure)
    found = constraints(
        SURVIVE, survive_section(), rejected, expected_frac={"update_actor": 2.4, "rollout": 0.4}
    )
    assert found == pytest.approx({"memory_update_actor": 2.0, "memory_rollout": -0.5})


@pytest.mark.parametrize(
    ("kl", "band", "expected"),
    [
        (0.08, (0.05, 0.12), {"kl_over_band": -1 / 3, "kl_under_band": -0.6}),
        (0.24, (0.05, 0.12), {"kl_over_band": 1.0, "kl_under_band": -3.8}),
        (0.01, (0.05, 0.12), {"kl_over_band": 0.01 / 0.12 - 1, "kl_under_band": 0.8}),
        (0.06, (0.0, 0.12), {"kl_over_band": -0.5}),
        (None, (0.05, 0.12), {}),
    ],
)
def test_constraints_of_quality_keep_kl_in_its_band(kl, band, expected):
    found = constraints(QUALITY, quality_section(kl_band=band), completed(peak=None, kl=kl))
    assert found == pytest.approx(expected)


def test_quality_learns_from_validation_where_there_is_one():
    assert objective(QUALITY, completed(reward=0.9, validation_reward=0.5)) == 0.5
    assert objective(QUALITY, completed(reward=0.9)) == 0.9
