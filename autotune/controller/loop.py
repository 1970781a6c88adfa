"""The loop: one turn receives, enforces, fills free slots. Everything it decides comes from `ladder/`.

Order of writes for each attempt: intent (store), effect (launcher), outcome (store, then Optuna).
A crash between any two leaves something that `resume.py` can finish or repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autotune.clock import Clock
from autotune.controller.budget import exhausted
from autotune.controller.climb import StageClimb, StudyStopError
from autotune.controller.progress import Standing, Watcher, finished_trial, flight_progress
from autotune.errors import AutotuneError, NothingFeasibleError, StoppedError
from autotune.job.model import Job
from autotune.judge import guards
from autotune.ladder.turn import Hold, Start
from autotune.ladder.view import Propose, Sample, Wait
from autotune.records import AttemptEnd, Event, StageResult
from autotune.store.store import Store
from autotune.trial.launcher import Launcher

_TURN_S = 0.25
"""Pause between turns: the longest delay of a guard's decision that the controller adds."""
_FINISHED_SHOWN = 5
_BOOKING_S = 5.0
"""Wall time is written this often; a crash loses no more of it."""


class Controller:
    """Climbs one stage at a time; the only caller of the store's and the studies' writing methods."""

    def __init__(self, job: Job, *, store: Store, launcher: Launcher, clock: Clock, watcher: Watcher) -> None:
        self._job = job
        self._store = store
        self._launcher = launcher
        self._clock = clock
        self._watcher = watcher
        self._stop_reason: str | None = None
        self._error: AutotuneError | None = None
        self._started_s = self._booked_s = clock.now_s()
        self._earlier_wall_s = store.wall_s()

    def stop(self, reason: str) -> None:
        """Asks the loop to end its trials and leave; safe to call from a signal handler."""
        self._stop_reason = reason

    def climb(self, climb: StageClimb) -> StageResult:
        """Runs one stage to its end and returns how it ended.

        Raises:
            NothingFeasibleError: The stage left nothing to go on with.
            AutotuneError: As `run`.
        """
        self.run(climb)
        result = climb.conclude()
        if result.best is None:
            raise NothingFeasibleError(f"stage {result.stage.value}: {result.statement}")
        return result

    def run(self, climb: StageClimb) -> None:
        """Runs trials until the stage wants no more.

        Raises:
            StoppedError: Ctrl-C or the budget came first; the same command resumes.
            UserCodeError: The user's code or data ends every trial.
        """
        finished = False
        while not (finished and not climb.flights):
            self._receive(climb)
            self._enforce(climb)
            if self._stop_reason is None:
                finished = self._fill(climb)
            elif not climb.flights:
                self._book_wall_time(0.0)
                raise self._error or StoppedError(
                    f"stopped: {self._stop_reason}; the same command goes on from here"
                )
            self._show(climb)
            if not finished or climb.flights:
                self._clock.sleep_s(_TURN_S)
        self._book_wall_time(0.0)

    def _receive(self, climb: StageClimb) -> None:
        by_attempt: dict[str, list[Event]] = {}
        for attempt_id, event in self._launcher.poll():
            by_attempt.setdefault(attempt_id, []).append(event)
        for attempt_id, events in by_attempt.items():
            flight = climb.flights.get(attempt_id)
            if flight is None:
                continue
            climb.observe(flight, events)
            if isinstance(events[-1], AttemptEnd):
                with self._stop_on_fault():
                    climb.settle(flight, events[-1], stopped=self._stop_reason)

    @contextmanager
    def _stop_on_fault(self) -> Iterator[None]:
        """Keeps the error until the other trials are ended: nothing holds a device when it is shown."""
        try:
            yield
        except StudyStopError as error:
            self._error = error.cause
            self._stop_reason = str(error.cause)

    def _wall_s(self) -> float:
        """Of this controller and those before it; counted here, since every turn asks."""
        return self._earlier_wall_s + self._clock.now_s() - self._started_s

    def _book_wall_time(self, least_s: float) -> None:
        now_s = self._clock.now_s()
        if now_s - self._booked_s >= least_s:
            self._store.add_wall_s(now_s - self._booked_s)
            self._booked_s = now_s

    def _enforce(self, climb: StageClimb) -> None:
        self._book_wall_time(_BOOKING_S)
        now_s = self._clock.now_s()
        if self._stop_reason is None:
            self._stop_reason = exhausted(
                self._job.budget,
                device_s=climb.device_s(),
                trials=climb.trials_told(),
                wall_s=self._wall_s(),
            )
        for flight in climb.flights.values():
            if flight.end_asked:
                continue
            stop = guards.check(flight.evidence, self._job.guards, now_s - flight.started_s)
            stop = stop or climb.early_stop(flight)
            if stop is not None:
                climb.observe(flight, [stop])
                self._watcher.say(f"{climb.stage.value} #{flight.number}: ending, {stop.reason}")
            reason = self._stop_reason if stop is None else stop.kind
            if reason is not None:
                flight.end_asked = True
                spare_s = None if stop is None else guards.spare_s(stop, flight.evidence)
                self._launcher.end(flight.attempt_id, reason, spare_s)

    def _fill(self, climb: StageClimb) -> bool:
        """Starts trials while there is room; True once the stage wants no more and none waits."""
        may_ask, finished = True, False
        while climb.has_room() and self._stop_reason is None:
            turn = climb.turn(may_ask=may_ask)
            if isinstance(turn, Hold):
                break
            if isinstance(turn, Start):
                with self._stop_on_fault():
                    climb.begin(turn)
                continue
            move = climb.next_move()
            candidate = move.candidate if isinstance(move, Propose) else None
            if isinstance(move, Sample):
                candidate = climb.sampled()
            if candidate is None:
                may_ask, finished = False, not isinstance(move, Wait)
            elif not climb.start(candidate):
                break  # it took no slot; what runs is looked at before the next proposal
        return finished and not climb.is_waiting() and self._error is None

    def _show(self, climb: StageClimb) -> None:
        now_s = self._clock.now_s()
        metric = self._job.guards.kl_metric
        ended = climb.view().ended
        self._watcher.show(
            Standing(
                stage=climb.stage,
                told=climb.told(),
                planned=climb.section.trials,
                best=climb.best_objective(),
                device_s=climb.device_s(),
                wall_s=self._wall_s(),
                budget=self._job.budget,
                flights=tuple(flight_progress(f, metric, now_s) for f in climb.flights.values()),
                trials=climb.trials_told(),
                memory_limit_frac=climb.section.peak_memory_frac,
                finished=tuple(finished_trial(view) for view in ended[-_FINISHED_SHOWN:]),
            )
        )
