"""One stage while it is climbed: opens trials, launches attempts, settles what ended.

Holds no decision of its own: `ladder/` says what to do, `judge/` what happened.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.controller.flight import Flight, judged_view
from autotune.controller.line import Line, batch_of, smallest_gpus
from autotune.controller.memory import MemoryForecasts
from autotune.controller.notices import stage_notice
from autotune.controller.services import Services
from autotune.controller.stored_events import store_events
from autotune.controller.wording import outcome_line, too_large, users_fault
from autotune.errors import AutotuneError
from autotune.job.model import Job, StageSection
from autotune.job.space_resolution import ResolvedSpace
from autotune.judge.evidence import Evidence
from autotune.judge.run_facts import run_facts
from autotune.judge.verdict import judge_attempt
from autotune.ladder import acceptance, strategy
from autotune.ladder.early_end import early_stop
from autotune.ladder.flight import Abandon, EndedAttempt, Launch, after_attempt, machine_at_fault
from autotune.ladder.objective import constraints, intermediate
from autotune.ladder.strategy import measures_alone
from autotune.ladder.turn import PASSED_AT_MOST, Start, Turn
from autotune.ladder.view import Move, StageView, TrialView
from autotune.records import (
    AttemptEnd,
    AttemptRole,
    Candidate,
    Event,
    Failure,
    FailureGroup,
    Figures,
    GuardStop,
    MetricRow,
    Outcome,
    Overrides,
    StageName,
    StageResult,
    Value,
    Verdict,
)
from autotune.search.study import StageStudy
from autotune.search.telling import Telling, telling
from autotune.trial.preparation import Refusal, steps_of
from autotune.trial.request import AttemptRequest
from autotune.verl_config.training_shape import gpus_of


class StudyStopError(Exception):
    """Searching on would waste devices; `cause` is what the user is told."""

    def __init__(self, cause: AutotuneError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class StageClimb:
    """One stage's trials, those in the air and those told.

    A trial: opened (Optuna, store) -> attempts (ladder.flight) -> told (store, then Optuna).
    """

    def __init__(
        self,
        services: Services,
        stage: StageName,
        *,
        study: StageStudy,
        space: ResolvedSpace,
        carried: Overrides,
        first: tuple[Candidate, ...] = (),
    ) -> None:
        self.stage = stage
        self.section = self._section_in(services.job)
        self.flights: dict[str, Flight] = {}
        self._services = services
        self._study = study
        self._space = space
        self._carried = carried
        self._view = StageView(stage=self.stage, section=self.section, space=space, first=first)
        self._move: tuple[StageView, Move] | None = None
        self._told = 0
        self._best_objective: float | None = None
        self._overrides: dict[int, Overrides] = {}
        resources = services.job.resources
        batch = batch_of(space, resources.batch, warm_sessions=resources.warm_sessions)
        # The finish alternates its two arms on purpose.
        passed = 0 if stage is StageName.FINISH else PASSED_AT_MOST
        self._line = Line(services.launcher, batch, passed)
        self._smallest = smallest_gpus(space, gpus_of(carried, resources.gpus_per_trial))
        self._memory = MemoryForecasts(services.job, stage, services.store, services.watcher)
        stored = services.store.trials()
        self._told_before = sum(
            trial.verdict is not None and trial.verdict.outcome is not Outcome.REJECTED
            for trial in stored
            if trial.stage is not stage
        )
        self._booked_device_s = services.store.device_s()

    def view(self) -> StageView:
        """The stage as its strategy sees it."""
        return self._view

    def next_move(self) -> Move:
        """What the stage's strategy wants; asked once for each change, since every turn asks."""
        view = self.view()
        if self._move is None or self._move[0] is not view:
            self._move = (view, strategy.next_move(view))
        return self._move[1]

    def view_of(self, number: int) -> TrialView:
        """One trial as the strategy sees it."""
        return self._view.trial(number)

    def best_objective(self) -> float | None:
        """The largest objective of a completed trial; None before there is one."""
        return self._best_objective

    def told(self) -> int:
        """Trials of this stage that ran and ended."""
        return self._told

    def trials_told(self) -> int:
        """Trials that ran and ended, over all stages."""
        return self._told_before + self._told

    def device_s(self) -> float:
        """Device seconds of the whole job, attempts in the air included."""
        now_s = self._services.clock.now_s()
        return self._booked_device_s + sum((now_s - f.started_s) * f.gpus for f in self.flights.values())

    def has_room(self) -> bool:
        """Whether one more trial may run beside those in the air without spoiling what they measure."""
        return not self.flights or not measures_alone(self.section, self._services.job.resources.device)

    def is_waiting(self) -> bool:
        """Whether trials are open that have not started."""
        return len(self._line) > 0

    def turn(self, *, may_ask: bool) -> Turn:
        """Which open trial starts now, or whether one more is to be asked for; see `ladder/turn.py`.

        Nothing is asked for while not even the smallest trial of the space would find room.
        """
        may_ask = may_ask and self._services.launcher.slots(self._smallest) > 0
        return self._line.turn(may_ask=may_ask)

    def begin(self, turn: Start) -> None:
        """Starts the trial whose turn it is, or goes on with it where a controller was interrupted."""
        waiting = self._line.take(turn)
        flight = waiting.flight
        if waiting.request is not None:
            self._launch(flight, AttemptRole.MEASURE, waiting.request)
        elif flight.attempts:
            self.proceed(flight)
        else:
            self._services.watcher.say(
                f"{self.stage.value} #{flight.number}: again, {flight.candidate.origin}"
            )
            self.launch(flight, AttemptRole.MEASURE)

    def sampled(self) -> Candidate | None:
        """The sampler's proposal; None where the space is used up."""
        return self._study.sampled(self.view().tried)

    def start(self, candidate: Candidate) -> bool:
        """Opens a trial, which begins when its turn comes; False where it was rejected before."""
        number = self._study.ask(candidate)
        overrides = self._overrides_of(candidate)
        now = self._services.clock.utc_now()
        trial_id = self._services.store.add_trial(self.stage, number, candidate, overrides, now)
        flight = Flight(trial_id=trial_id, number=number, candidate=candidate, overrides=overrides)
        self.know(TrialView(number=number, candidate=candidate), overrides)
        self._services.watcher.say(f"{self.stage.value} #{number}: {candidate.origin}")
        request = self._prepared(flight, AttemptRole.MEASURE)
        if request is None:
            return False
        self._line.join(flight, request.gpus, request)
        return True

    def know(self, view: TrialView, overrides: Overrides) -> None:
        """Takes a trial into the stage's view, from `start` or from the database, in order of numbers."""
        before = self._view.find(view.number)
        is_news = before is None or before.verdict is None
        self._told += is_news and view.verdict is not None and not view.is_rejected
        if view.is_complete and view.objective is not None:
            best = self._best_objective
            self._best_objective = view.objective if best is None else max(best, view.objective)
        self._view = self._view.with_trial(view)
        self._overrides[view.number] = overrides

    def leave_open(self, flight: Flight) -> None:
        """Notes a trial that an interrupted controller left; it goes on when there is room."""
        overrides = {**flight.overrides, **self.section.overrides}
        self._line.join(flight, gpus_of(overrides, self._services.job.resources.gpus_per_trial))

    def launch(self, flight: Flight, role: AttemptRole, *, alone: bool = False) -> None:
        """Launches one attempt, where the trial is not rejected before.

        `alone`: in a process of its own, although it could share one.
        """
        request = self._prepared(flight, role)
        if request is not None:
            self._launch(flight, role, replace(request, session_key=None) if alone else request)

    def _prepared(self, flight: Flight, role: AttemptRole) -> AttemptRequest | None:
        """The request of the trial's next attempt; None where the trial was told that it is rejected."""
        services = self._services
        index = flight.index + 1
        paths = services.paths.attempt(self.stage, flight.number, index)
        request = services.preparer.request(
            self._section_for(flight), flight.overrides, role, paths, uuid.uuid4().hex[:12]
        )
        if isinstance(request, AttemptRequest) and request.gpus > services.launcher.largest():
            request = too_large(request.gpus, services.launcher.largest(), services.job.resources)
        if isinstance(request, Refusal):
            self._reject(flight, role, request)
            return None
        if index == 0 and self.stage is not StageName.FINISH:  # both of its arms have to run
            settings = services.preparer.settings(self.section, flight.overrides, role, paths)
            flat = services.preparer.resolve(settings).flat
            hopeless = self._memory.before_launch(self.view(), flight, flat)
            if hopeless is not None:
                self.tell(flight, hopeless)
                return None
        return request

    def _launch(self, flight: Flight, role: AttemptRole, request: AttemptRequest) -> None:
        """Launches one attempt: intent into the store, then the effect."""
        services = self._services
        attempt_id = request.attempt_id
        flight.index += 1
        services.store.start_attempt(
            flight.trial_id,
            attempt_id=attempt_id,
            index=flight.index,
            role=role,
            folder=request.folder,
            at_utc=services.clock.utc_now(),
            devices=request.gpus,
        )
        flight.attempt_id, flight.role, flight.gpus = attempt_id, role, request.gpus
        flight.steps, flight.end_asked, flight.rows_weighed = steps_of(self.section, role), False, 0
        flight.evidence, flight.started_s = Evidence(), services.clock.now_s()
        flight.unwritten, flight.written_s = [], flight.started_s
        self.flights[attempt_id] = flight
        services.launcher.start(request)
        services.store.attempt_is_running(attempt_id, services.clock.utc_now())

    def observe(self, flight: Flight, events: Sequence[Event]) -> None:
        """Takes what a running attempt reported into its evidence, the store and the study's curve."""
        for event in events:
            flight.evidence.add(event)
        store_events(flight, events, self._services.store, self._services.clock)
        if flight.role is not AttemptRole.MEASURE:
            return
        for row in (event for event in events if isinstance(event, MetricRow)):
            value = intermediate(self.stage, row.values, row.step, flight.steps)
            if value is not None:
                self._study.report(flight.number, row.step, value)

    def early_stop(self, flight: Flight) -> GuardStop | None:
        """The decision to end a running trial that cannot win any more; asked anew with each metric row."""
        rows = flight.evidence.steps
        if flight.role is not AttemptRole.MEASURE or rows == flight.rows_weighed:
            return None
        flight.rows_weighed = rows
        return early_stop(self.view(), self.view_of(flight.number), flight.evidence, flight.steps)

    def settle(self, flight: Flight, end: AttemptEnd, *, stopped: str | None) -> None:
        """Judges an attempt that ended and does what follows from it."""
        services = self._services
        verdict = self.judged(flight.evidence, flight.steps, flight.overrides)
        if stopped is not None and flight.evidence.stop is None and end.asked:
            verdict = replace(verdict, outcome=Outcome.STOPPED, failure=None)
        device_s = (services.clock.now_s() - flight.started_s) * flight.gpus
        services.store.end_attempt(
            flight.attempt_id, end=end, verdict=verdict, device_s=device_s, at_utc=services.clock.utc_now()
        )
        self._booked_device_s += device_s
        self.flights.pop(flight.attempt_id, None)
        if flight.role is AttemptRole.MEASURE:
            flight.rows = flight.evidence.rows
        if verdict.outcome is Outcome.STOPPED:
            return  # the trial stays open: the same command launches it again
        flight.attempts.append(EndedAttempt(flight.role, verdict, end.session_number > 0))
        self.proceed(flight, stopped=stopped)

    def judged(self, evidence: Evidence, steps: int, overrides: Overrides) -> Verdict:
        """The verdict on an attempt that was asked for `steps` with `overrides` over the job's own."""
        flat = {**self._services.preparer.resolve(self._carried).flat, **overrides}
        warmup = self.section.warmup_steps
        return judge_attempt(
            evidence,
            steps_asked=steps,
            warmup_steps=None if warmup is None else min(warmup, max(steps - 1, 0)),
            guards=self._services.job.guards,
            facts=run_facts(flat, self._services.job),
        )

    def proceed(self, flight: Flight, *, stopped: str | None = None) -> None:
        """Does what the ladder says about a trial whose latest attempt is judged."""
        following = after_attempt(self.section, flight.attempts)
        if isinstance(following, Launch):
            if stopped is None:
                self._services.watcher.say(f"{self.stage.value} #{flight.number}: {following.reason}")
                self.launch(flight, following.role, alone=following.alone)
            return
        self.tell(flight, following.verdict)
        if isinstance(following, Abandon):
            raise StudyStopError(users_fault(self.stage, flight, following.verdict))
        broken = machine_at_fault(self.view().ended)
        if broken is not None:
            message = f"{self.stage.value}: {broken}; mend it and run the same command again"
            raise StudyStopError(AutotuneError(message))

    def tell(self, flight: Flight, verdict: Verdict) -> None:
        """Ends the trial in the store, then in Optuna; a crash between is mended on resumption."""
        view = judged_view(flight, verdict, self.view(), self._services.job.guards.kl_metric)
        self.know(view, flight.overrides)
        self._memory.learn(flight, verdict)
        told = self.telling_of(view)
        self._services.store.end_trial(
            flight.trial_id,
            verdict=verdict,
            objective=view.objective,
            accepted=view.accepted,
            pruned=told.state == "pruned",
            at_utc=self._services.clock.utc_now(),
        )
        self._study.tell(flight.number, told)
        self._services.watcher.say(outcome_line(self.stage, view))

    def telling_of(self, view: TrialView) -> Telling:
        """What Optuna is to be told of an ended trial."""
        assert view.verdict is not None
        expected = self._memory.expected_frac(view, self._view.trials, self._flat)
        return telling(
            view.verdict,
            objective=view.objective,
            constraints=constraints(self.stage, self.section, view.verdict, expected_frac=expected),
            accepted=view.accepted,
            origin=view.candidate.origin,
        )

    def conclude(self) -> StageResult:
        """Stores and returns how the stage ended."""
        view = self.view()
        result = acceptance.stage_result(
            view, strategy.baseline(view), carried=self._carried, overrides_of=self._overrides
        )
        self._services.store.end_stage(result, self._services.clock.utc_now())
        self._services.watcher.say(f"{self.stage.value}: {result.statement}")
        self._services.notifier.tell(stage_notice(self._services.job, result))
        return result

    def _section_in(self, job: Job) -> StageSection:
        """The stage as the job asks for it."""
        section = job.stage(self.stage)
        assert section is not None
        return section

    def _section_for(self, flight: Flight) -> StageSection:
        """The section that a trial is launched with; all trials of a search share their seed."""
        return self.section

    def _overrides_of(self, candidate: Candidate) -> Overrides:
        """Everything over the job's own configuration in a trial of `candidate`."""
        return {**self._carried, **self._space.overrides(candidate.params)}

    def _flat(self, number: int) -> Mapping[str, Value]:
        return self._services.preparer.resolve(self._overrides[number]).flat

    def _reject(self, flight: Flight, role: AttemptRole, refusal: Refusal) -> None:
        failure = Failure(
            kind="config_validation", group=FailureGroup.CANDIDATE, phase="config", cause=refusal.cause
        )
        verdict = Verdict(
            outcome=Outcome.REJECTED,
            figures=Figures(steps_asked=steps_of(self.section, role)),
            failure=failure,
        )
        self.tell(flight, verdict)
