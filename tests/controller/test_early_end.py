"""A trial that cannot win is ended, told, booked; and a crash at any write changes nothing of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd, AttemptState, Event, GuardStop, Outcome, StageName
from autotune.trial.supervisor import write_end
from tests.controller.conftest import SEQUENCES, job_of, synthetic_verl, value_of

STAGES = [StageName.SURVIVE, StageName.SPEED]


def slow_with_many_sequences(request: Any, tree: dict[str, Any]) -> list[Event]:
    """As the synthetic verl, three times as slow with 64 sequences at once."""
    events = synthetic_verl(request, tree)
    if value_of(tree, SEQUENCES) == 64:
        for event in events:
            if hasattr(event, "values"):
                event.values["perf/throughput"] /= 3.0
    return events


def speed_job(results: Path) -> Any:
    job = job_of(results)
    speed = job.stages.speed.model_copy(update={"steps": 8})
    return job.model_copy(update={"stages": job.stages.model_copy(update={"speed": speed, "quality": None})})


def test_a_hopeless_trial_is_ended_told_as_pruned_and_booked(rig: Any, tmp_path: Path) -> None:
    with rig(slow_with_many_sequences, job=speed_job(tmp_path / "results")) as one:
        run_ladder(one.services, one.controller, STAGES)
        trials = one.store.trials(StageName.SPEED)
        ended = [t for t in trials if t.verdict.outcome is Outcome.ENDED_EARLY]
        stops = [
            event
            for event in one.store.events(one.store.attempts(ended[0].id)[0].attempt_id)
            if isinstance(event, GuardStop)
        ]
        study = optuna.load_study(study_name="played 2 speed", storage=one.store.url)
        ledger = one.store.ledger()
    told = study.trials[ended[0].number]
    assert ended[0].verdict.failure is None
    assert "steady steps" in ended[0].verdict.reason
    assert [stop.kind for stop in stops] == ["slower_than_best"]
    assert told.state is optuna.trial.TrialState.PRUNED
    assert list(told.intermediate_values.values())[-1] == pytest.approx(150.0 / 3.0)
    assert told.user_attrs["outcome"] == "ended_early"
    # A step is a second here, and an end is seen up to a turn late.
    left = sum(8 - t.verdict.figures.steps for t in ended)
    assert ledger.saved_by_early_end_gpu_s == pytest.approx(left, rel=0.2)


class _Crash(BaseException):
    """Stands for kill -9: nothing after it is carried out."""


@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_around_the_decision_loses_nothing(rig: Any, tmp_path: Path, writes: int) -> None:
    job = speed_job(tmp_path / "results")
    left = None
    with rig(slow_with_many_sequences, job=job) as one:
        for name in ("add_events", "end_attempt", "end_trial", "add_trial", "start_attempt"):
            real = getattr(one.store, name)

            def crashing(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
                nonlocal left
                answer = _real(*args, **kwargs)
                decided = any(
                    isinstance(e, GuardStop) for part in args if isinstance(part, list) for e in part
                )
                left = writes if left is None and decided else left
                if left is not None:
                    left -= 1
                    if left == 0:
                        raise _Crash
                return answer

            setattr(one.store, name, crashing)
        with pytest.raises(_Crash):
            run_ladder(one.services, one.controller, STAGES)
        finished = [t for t in one.store.trials() if t.ended_utc is not None]
        # Their supervisors, whose runner is gone with the controller, were asked and have ended verl.
        for attempt in one.store.running_attempts():
            write_end(AttemptPaths(Path(attempt.folder)), AttemptEnd(at_s=5.0, exit_code=1, asked=True))
    with rig(slow_with_many_sequences, job=job) as two:
        run_ladder(two.services, two.controller, STAGES)
        trials = two.store.trials()
        attempts = [a for t in trials for a in two.store.attempts(t.id)]
        study = optuna.load_study(study_name="played 2 speed", storage=two.store.url)
    assert trials[: len(finished)] == finished
    assert all(a.state in (AttemptState.ENDED, AttemptState.LOST) for a in attempts)
    assert all(t.state.is_finished() for t in study.trials)
    ended = [t for t in trials if t.verdict.outcome is Outcome.ENDED_EARLY]
    assert ended
    assert all(study.trials[t.number].state is optuna.trial.TrialState.PRUNED for t in ended)
