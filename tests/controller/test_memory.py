"""The memory forecast in a climbing ladder: made, stored, corrected, and what it keeps from being launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.controller.memory import device_memory_gb
from autotune.controller.progress import SilentWatcher
from autotune.job.model import Job
from autotune.records import AttemptState, Outcome, StageName
from tests.controller.conftest import MICRO_BATCH, Crash, crash_after, job_of, job_of_known_model

SURVIVE, SPEED = StageName.SURVIVE, StageName.SPEED
STAGES = tuple(StageName)


class Listener(SilentWatcher):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def micro_batches(trials: Any) -> list[Any]:
    return [trial.candidate.params[MICRO_BATCH] for trial in trials]


def test_a_hopeless_repair_is_a_trial_that_cost_nothing_and_is_repaired_in_turn(
    rig: Any, tmp_path: Path
) -> None:
    with rig(job=job_of_known_model(tmp_path)) as one:
        run_ladder(one.services, one.controller, [SURVIVE])
        trials = one.store.trials()
        attempts = [one.store.attempts(trial.id) for trial in trials]
        study = optuna.load_study(study_name="played 1 survive", storage=one.store.url)
    # The user's own is hopeless as well, and runs all the same.
    assert micro_batches(trials) == [64, 32, 8]
    assert [t.verdict.outcome for t in trials] == [Outcome.FAILED, Outcome.REJECTED, Outcome.COMPLETED]
    assert [len(of_trial) for of_trial in attempts] == [1, 0, 2]
    failure = trials[1].verdict.failure
    assert failure.kind == "oom_gpu_actor_update"
    assert failure.cause.startswith("not launched, update_actor would need")
    told = study.trials[1]
    assert told.state is optuna.trial.TrialState.PRUNED
    assert 0.0 < told.constraints["memory_update_actor"] < study.trials[0].constraints["memory_update_actor"]


def test_the_forecast_is_stored_with_its_trial_and_corrected_by_those_before(
    rig: Any, tmp_path: Path
) -> None:
    with rig(job=job_of_known_model(tmp_path)) as one:
        run_ladder(one.services, one.controller, [SURVIVE, SPEED])
        forecasts = {(t.stage, t.number): one.store.forecast(t.id) for t in one.store.trials()}
    first, later = forecasts[(SURVIVE, 0)], forecasts[(SPEED, 0)]
    assert (first.measurements, first.phase) == (0, "update_actor")
    assert first.of("update_actor").largest_term == "logits"
    # The survivor's own run and its certificate corrected what is expected of it.
    assert later.measurements > 0
    update = later.of("update_actor")
    assert abs(update.expected_gb - 0.3) < abs(update.predicted_gb - 0.3)
    assert update.sd_gb < first.of("update_actor").sd_gb


def test_stages_run_one_by_one_expect_what_one_run_expects(rig: Any, tmp_path: Path) -> None:
    def forecasts(store: Any) -> list[Any]:
        return [store.forecast(trial.id) for trial in store.trials()]

    whole, apart = tmp_path / "whole", tmp_path / "apart"
    for folder in (whole, apart):
        folder.mkdir()
    with rig(job=job_of_known_model(whole)) as one:
        run_ladder(one.services, one.controller, [SURVIVE, SPEED])
        expected = forecasts(one.store)
    for stage in (SURVIVE, SPEED):
        with rig(job=job_of_known_model(apart)) as one:
            run_ladder(one.services, one.controller, [stage])
            found = forecasts(one.store)
    assert found == expected


@pytest.mark.parametrize("writes", range(1, 24, 2))
def test_a_crash_among_rejections_loses_nothing_and_repeats_nothing(
    rig: Any, tmp_path: Path, writes: int
) -> None:
    job = job_of_known_model(tmp_path)
    with rig(job=job) as one:
        crash_after(one.store, writes)
        with pytest.raises(Crash):
            run_ladder(one.services, one.controller, [SURVIVE])
        ended = [trial for trial in one.store.trials() if trial.ended_utc is not None]
    with rig(job=job) as two:
        run_ladder(two.services, two.controller, [SURVIVE])
        trials = two.store.trials()
        attempts = [attempt for trial in trials for attempt in two.store.attempts(trial.id)]
        study = optuna.load_study(study_name="played 1 survive", storage=two.store.url)
    assert trials[: len(ended)] == ended
    assert micro_batches(trials) == [64, 32, 8]
    assert [t.verdict.outcome for t in trials] == [Outcome.FAILED, Outcome.REJECTED, Outcome.COMPLETED]
    assert all(attempt.state in (AttemptState.ENDED, AttemptState.LOST) for attempt in attempts)
    told = [trial for trial in study.trials if trial.state is not optuna.trial.TrialState.FAIL]
    assert [trial.params[MICRO_BATCH] for trial in told] == [64, 32, 8]
    assert told[1].constraints["memory_update_actor"] > 0.0


def test_rejections_use_up_neither_the_stage_nor_the_budget(rig: Any, tmp_path: Path) -> None:
    job = job_of_known_model(tmp_path, budget={"trials": 3})
    with rig(job=job) as one:
        results = run_ladder(one.services, one.controller, [SURVIVE])
        assert len(one.store.trials()) == 3
    assert results[SURVIVE].acceptance_met


def test_an_unknown_model_is_said_once_and_changes_nothing(rig: Any) -> None:
    listener = Listener()
    with rig(watcher=listener) as one:
        run_ladder(one.services, one.controller, STAGES)
        forecasts = [one.store.forecast(trial.id) for trial in one.store.trials()]
    assert [line for line in listener.lines if "no memory forecast" in line] == [
        "no memory forecast: the architecture of model is not known; candidates run unjudged"
    ]
    assert set(forecasts) == {None}


def test_a_device_that_only_trials_see_is_forecast_once_one_has_shown_it(rig: Any, tmp_path: Path) -> None:
    resources = {"device": "gpu", "ray_address": "ray://elsewhere:10001"}
    with rig(job=job_of_known_model(tmp_path, resources=resources)) as one:
        run_ladder(one.services, one.controller, [SURVIVE, SPEED])
        survive, speed = (one.store.trials(stage) for stage in (SURVIVE, SPEED))
        assert one.store.forecast(survive[0].id) is None
        assert one.store.forecast(speed[0].id).capacity_gb == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"device": "cpu", "cpu": {"worker_memory_cap_gb": 0.33}}, 0.33),
        ({"device": "cpu"}, None),
        ({"device": "gpu", "ray_address": "ray://elsewhere:10001"}, None),
    ],
)
def test_memory_of_a_device(resources: dict[str, Any], expected: float | None, tmp_path: Path) -> None:
    job: Job = job_of(tmp_path, resources=resources)
    assert device_memory_gb(job) == expected
