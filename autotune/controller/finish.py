"""Runs the finish: plans it once, climbs it like a stage whose candidates are two configurations, ends it.

Order of writes: the plan (before any run, so that no look can change it), the runs like every stage's
trials, the verdict. After a crash the stored plan and runs lead to the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.controller.climb import StageClimb
from autotune.controller.flight import Flight
from autotune.controller.loop import Controller
from autotune.controller.notices import finish_notice
from autotune.controller.resume import restore
from autotune.controller.services import Services
from autotune.job.model import FinishStage, Job, StageSection
from autotune.job.resolved_space import ResolvedSpace
from autotune.judge.comparison import REWARD, SPEED
from autotune.judge.run_figures import RunFigures, run_figures
from autotune.ladder import finish
from autotune.ladder.view import TrialView
from autotune.records import (
    Arm,
    AttemptRole,
    Candidate,
    FinishPlan,
    FinishVerdict,
    Outcome,
    Overrides,
    StageName,
    Value,
)
from autotune.search.study import StageStudy, open_storage
from autotune.store.store import Store

_NO_SPACE = ResolvedSpace(name="finish", parameters=(), facts={})


def run_finish(services: Services, controller: Controller, winner: Overrides) -> FinishVerdict:
    """The verdict on `winner`, made now or read where there is one already.

    Args:
        services: The job's services.
        controller: Runs the trials.
        winner: Overrides over the job's own configuration, as the last stage hands them on.

    Raises:
        AutotuneError: As `Controller.run`.
    """
    store = services.store
    stored = store.finish_verdict()
    if stored is not None:
        return stored
    plan = store.finish_plan()
    if plan is None:
        plan = plan_finish(services, winner)
        store.plan_finish(plan, services.clock.utc_now())
    climb = FinishClimb(services, plan)
    restore(climb, climb.study, services)
    controller.run(climb)
    return climb.end()


def plan_finish(services: Services, winner: Overrides) -> FinishPlan:
    """What is settled before the first run: pairs within the budget, looks, seeds, configurations."""
    job, section = services.job, services.job.finish
    survive = services.store.stage_results().get(StageName.SURVIVE)
    survivor = None if survive is None or survive.best is None else survive.overrides
    own, best = _flat(services, {}), _flat(services, winner)
    left = _runs_left(job, services.store)
    room = float("inf") if left is None else left
    pairs = finish.affordable_pairs(section.repeats, room)
    looks = finish.looks_of(pairs)
    after = finish.after_of(looks, section.repeats_after, room)
    return FinishPlan(
        pairs=pairs,
        looks=looks,
        alphas=finish.alphas_of(looks, 1.0 - section.confidence),
        after=after,
        least_gain_frac=section.least_gain_frac,
        goals=_goals(job),
        seeds=finish.fresh_seeds(_used_seeds(job, own), finish.most_pairs(looks, after)),
        steps=section.steps or _last_section(job).steps,
        validation=section.validation,
        winner=winner,
        survivor=None if survivor is None or _flat(services, survivor) == best else survivor,
        is_own=own == best,
    )


class FinishClimb(StageClimb):
    """The finish while it runs: every trial is a cold run of one arm on one seed."""

    def __init__(self, services: Services, plan: FinishPlan) -> None:
        self.plan = plan
        self.study = StageStudy(
            open_storage(services.store.url),
            job_name=services.job.name,
            stage=StageName.FINISH,
            space=_NO_SPACE,
            seed=0,
        )
        self._own_flat = _flat(services, {})
        super().__init__(services, StageName.FINISH, study=self.study, space=_NO_SPACE, carried={})
        self._view = replace(self._view, plan=plan)

    def know(self, view: TrialView, overrides: Overrides) -> None:
        """Takes a run into the view, with what it contributes to the comparison."""
        super().know(replace(view, run=self._run_of(view)), overrides)

    def end(self) -> FinishVerdict:
        """Stores and returns the verdict."""
        verdict = finish.final_verdict(self.view())
        self._services.store.end_finish(verdict, self._services.clock.utc_now())
        self._services.watcher.say(f"finish: {verdict.statement}")
        self._services.notifier.tell(finish_notice(self._services.job, verdict))
        return verdict

    def _section_in(self, job: Job) -> StageSection:
        return FinishStage.of(job, self.plan)

    def _section_for(self, flight: Flight) -> StageSection:
        return self.section.model_copy(update={"seed": flight.candidate.params[finish.DATA_SEED]})

    def _overrides_of(self, candidate: Candidate) -> Overrides:
        by_arm = {Arm.OWN: {}, Arm.SURVIVOR: self.plan.survivor or {}, Arm.WINNER: self.plan.winner}
        seed = candidate.params[finish.DATA_SEED]
        # A version of verl without one of the keys would refuse it.
        seeds = {key: seed for key in finish.SEED_KEYS if key in self._own_flat}
        return {**by_arm[Arm(candidate.origin)], **seeds}

    def _run_of(self, view: TrialView) -> RunFigures | None:
        if not view.is_complete or view.verdict is None:
            return None
        store = self._services.store
        trial = store.trial(StageName.FINISH, view.number)
        assert trial is not None
        made = [
            attempt
            for attempt in store.attempts(trial.id)
            if attempt.role is AttemptRole.MEASURE
            and attempt.verdict is not None
            and attempt.verdict.outcome is Outcome.COMPLETED
        ]
        every = self._own_flat.get("trainer.test_freq")
        return run_figures(
            [row for row in store.metric_rows(made[-1].attempt_id) if row.step > 0],
            warmup_steps=self.section.warmup_steps,
            validation_every=every if isinstance(every, int) else None,
            peak_memory_gb=view.verdict.figures.peak_memory_gb,
        )


def _flat(services: Services, overrides: Overrides) -> Mapping[str, Value]:
    return services.preparer.resolve(overrides).flat


def _goals(job: Job) -> tuple[str, ...]:
    """What the job's stages searched for; a job that only survives is compared in speed."""
    reward = (REWARD,) if job.stages.quality is not None else ()
    return (SPEED, *reward) if job.stages.speed is not None or not reward else reward


def _last_section(job: Job) -> StageSection:
    section = job.stage(job.stage_names()[-1])
    assert section is not None
    return section


def _used_seeds(job: Job, own: Mapping[str, Value]) -> list[int]:
    """Every seed that tuning or the user's own configuration may have used."""
    sections = [job.stage(name) for name in job.stage_names()]
    values = [own.get(key) for key in finish.SEED_KEYS]
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return [*(section.seed for section in sections if section is not None), *numbers]


def _runs_left(job: Job, store: Store) -> float | None:
    """For how many runs the budget has room, by what a completed trial has cost; None without limits."""
    trials = store.trials()
    spent_s, cost_s, run_s = store.device_s_by_trial(), 0.0, 0.0
    done = [t for t in trials if t.verdict is not None and t.verdict.outcome is Outcome.COMPLETED]
    if done:
        cost_s = sum(spent_s.get(trial.id, 0.0) for trial in done) / len(done)
        run_s = sum(spent_s.get(trial.id, 0.0) / _devices(store, trial.id) for trial in done) / len(done)
    budget, left = job.budget, []
    if budget.trials is not None:
        left.append(float(budget.trials - len(trials)))
    if budget.gpu_hours is not None and cost_s > 0.0:
        left.append((budget.gpu_hours * 3600 - store.device_s()) / cost_s)
    if budget.wall_hours is not None and run_s > 0.0:
        slots = job.resources.trials_at_once or 1
        left.append((budget.wall_hours * 3600 - store.wall_s()) / run_s * slots)
    return min(left) if left else None


def _devices(store: Store, trial_id: int) -> int:
    return max((attempt.devices for attempt in store.attempts(trial_id)), default=1)
