"""Brings a stage back after an interruption: no finished trial lost, none started twice.

What a crash can leave, and what becomes of it:
    asked in Optuna, not in the store       told FAIL: it was never launched
    ended in the store, not told to Optuna  told again, from the stored verdict
    attempt running, verl has finished      adopted: judged from its folder
    attempt running, verl interrupted       its processes are ended, the trial gets a new attempt
"""

from __future__ import annotations

from pathlib import Path

from autotune.controller.climb import StageClimb
from autotune.controller.flight import Flight, curve
from autotune.controller.services import Services
from autotune.job.paths import AttemptPaths
from autotune.judge.evidence import Evidence
from autotune.ladder.flight import EndedAttempt
from autotune.ladder.view import TrialView
from autotune.records import (
    AttemptRole,
    Event,
    Failure,
    FailureGroup,
    Figures,
    GuardStop,
    Outcome,
    Verdict,
)
from autotune.search.study import StageStudy
from autotune.search.telling import Telling
from autotune.store.stored import StoredAttempt, StoredTrial
from autotune.trial.orphans import end_orphan
from autotune.trial.preparation import steps_of
from autotune.trial.recorded import read_attempt

NEVER_LAUNCHED = Telling(state="fail", attributes={"outcome": "stopped"}, note="Asked for, never launched.")


def restore(climb: StageClimb, study: StageStudy, services: Services) -> None:
    """Makes `climb` know what the database knows, and mends what a crash left half-done."""
    stored = services.store.trials(climb.stage)
    for trial in stored:
        attempts = services.store.attempts(trial.id)
        climb.know(_view(trial, attempts, services), trial.overrides)
    for trial in stored:
        if trial.ended_utc is None:
            climb.leave_open(_open_flight(climb, trial, services))
        elif not study.is_told(trial.number):
            view = climb.view_of(trial.number)
            study.tell(trial.number, climb.telling_of(view))
    known = {trial.number for trial in stored}
    for number in study.running():
        if number not in known:
            study.tell(number, NEVER_LAUNCHED)


def _view(trial: StoredTrial, attempts: list[StoredAttempt], services: Services) -> TrialView:
    measured = [a for a in attempts if a.role is AttemptRole.MEASURE]
    rows = services.store.metric_rows(measured[-1].attempt_id) if measured else []
    return TrialView(
        number=trial.number,
        candidate=trial.candidate,
        verdict=trial.verdict,
        objective=trial.objective,
        accepted=trial.accepted,
        rewards=curve(rows, "critic/rewards/mean"),
        kls=curve(rows, services.job.guards.kl_metric),
    )


def _open_flight(climb: StageClimb, trial: StoredTrial, services: Services) -> Flight:
    flight = Flight(
        trial_id=trial.id, number=trial.number, candidate=trial.candidate, overrides=trial.overrides
    )
    for attempt in services.store.attempts(trial.id):
        flight.index = max(flight.index, attempt.index)
        verdict = attempt.verdict
        if attempt.ended_utc is None:
            verdict = _end_interrupted(climb, flight, attempt, services)
        if verdict is None or verdict.outcome is Outcome.STOPPED:
            continue
        flight.role = attempt.role
        shared = attempt.end is not None and attempt.end.session_number > 0
        flight.attempts.append(EndedAttempt(attempt.role, verdict, shared))
        if attempt.role is AttemptRole.MEASURE:
            flight.rows = services.store.metric_rows(attempt.attempt_id)
    return flight


def _end_interrupted(
    climb: StageClimb, flight: Flight, attempt: StoredAttempt, services: Services
) -> Verdict | None:
    """Ends what lives of the attempt; its verdict where verl or a guard had ended it before, else None."""
    paths = AttemptPaths(Path(attempt.folder))
    end = end_orphan(paths)
    events: list[Event] = read_attempt(paths)
    services.store.add_events(attempt.attempt_id, events, services.clock.utc_now())
    steps = steps_of(climb.section, attempt.role)
    stops = [event for event in services.store.events(attempt.attempt_id) if isinstance(event, GuardStop)]
    evidence = Evidence.from_events([*stops, *events])
    adopted = not end.lost and (bool(stops) or not end.asked)
    verdict = climb.judged(evidence, steps, flight.overrides) if adopted else _interrupted(evidence, steps)
    services.store.end_attempt(
        attempt.attempt_id,
        end=end,
        verdict=verdict,
        device_s=end.at_s * attempt.devices,
        at_utc=services.clock.utc_now(),
    )
    word = "finished meanwhile, adopted" if adopted else "interrupted, will run again"
    services.watcher.say(f"{climb.stage.value} #{flight.number}: attempt {attempt.index} {word}")
    return verdict if adopted else None


def _interrupted(evidence: Evidence, steps: int) -> Verdict:
    return Verdict(
        outcome=Outcome.STOPPED,
        figures=Figures(steps=len(evidence.rows), steps_asked=steps),
        failure=Failure(
            kind="lost",
            group=FailureGroup.INFRASTRUCTURE,
            phase=evidence.phase,
            cause="The controller was interrupted while the attempt ran.",
        ),
    )
