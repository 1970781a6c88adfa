"""From a job to its results: every stage in order, each starting from what the one before handed on."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.controller.climb import StageClimb
from autotune.controller.finish import run_finish
from autotune.controller.loop import Controller
from autotune.controller.resume import restore
from autotune.controller.services import Services
from autotune.errors import Fault, InputError, NothingFeasibleError
from autotune.job.facts import job_facts
from autotune.job.model import Job, StageSection
from autotune.job.space_resolution import ResolvedSpace, resolve_space
from autotune.records import Candidate, Overrides, StageName, StageResult
from autotune.search.moves import completed
from autotune.search.study import StageStudy, open_storage, storage_errors
from autotune.store.stored import StoredTrial
from autotune.trial.preparation import Preparer
from autotune.verl_config.extensions import with_extensions
from autotune.verl_config.training_shape import gpus_of


def run_ladder(
    services: Services, controller: Controller, stages: Sequence[StageName]
) -> dict[StageName, StageResult]:
    """Climbs `stages` and returns the results of every stage so far, earlier runs included.

    `FINISH` among them confirms what the stages found; its verdict is the store's to tell.

    A stage whose result is stored is not climbed again.

    Raises:
        InputError: A stage is asked for whose predecessor has no result.
        AutotuneError: As `Controller.climb`.
    """
    with storage_errors(services.store.url):
        _climb_all(services, controller, stages)
    return services.store.stage_results()


def _climb_all(services: Services, controller: Controller, stages: Sequence[StageName]) -> None:
    store = services.store
    storage = open_storage(store.url)
    for stage in stages:
        results = store.stage_results()
        if stage is StageName.FINISH:
            run_finish(services, controller, carried_overrides(services.job, stage, results))
            continue
        if stage in results:
            if results[stage].best is None:
                raise NothingFeasibleError(f"stage {stage.value}: {results[stage].statement}")
            continue
        carried = carried_overrides(services.job, stage, results)
        section = services.job.stage(stage)
        assert section is not None
        space = stage_space(services.job, section, services.preparer, carried)
        study = StageStudy(storage, job_name=services.job.name, stage=stage, space=space, seed=section.seed)
        first = first_candidates(stage, space, store.trials(), results)
        climb = StageClimb(services, stage, study=study, space=space, carried=carried, first=first)
        restore(climb, study, services)
        controller.climb(climb)


def carried_overrides(job: Job, stage: StageName, results: dict[StageName, StageResult]) -> Overrides:
    """What the stages before hand on to `stage`; empty for the first one of the job.

    Raises:
        InputError: The stage before has not been climbed.
    """
    order = (*job.stage_names(), StageName.FINISH)
    place = order.index(stage)
    if place == 0:
        return {}
    before = order[place - 1]
    if before not in results:
        raise InputError(
            Fault(
                where="--stage",
                found=stage.value,
                allowed=f"a stage whose predecessor has a result; {before.value} has none yet",
                next_step=f"run the whole job, or `--stage {before.value}` first",
            )
        )
    return results[before].overrides


def stage_space(job: Job, section: StageSection, preparer: Preparer, carried: Overrides) -> ResolvedSpace:
    """The stage's space in numbers; the configuration carried down the ladder is a point of it."""
    flat = preparer.resolve(carried).flat
    space = with_extensions(section, job.extensions)
    return resolve_space(space, job_facts(flat, gpus_of(flat, job.resources.gpus_per_trial)), flat)


def first_candidates(
    stage: StageName,
    space: ResolvedSpace,
    trials: Sequence[StoredTrial],
    results: dict[StageName, StageResult],
) -> tuple[Candidate, ...]:
    """What the stage starts with: the handed-on configuration, then the other accepted ones of survive."""
    if stage is StageName.SURVIVE:
        return ()
    word = "survivor, repeated" if stage is StageName.SPEED else "fastest configuration, as baseline"
    found = [Candidate(params=space.user_params(), origin=word)]
    survive = results.get(StageName.SURVIVE)
    if stage is not StageName.SPEED or survive is None:
        return tuple(found)
    by_number = {trial.number: trial for trial in trials if trial.stage is StageName.SURVIVE}
    searched = {parameter.key for parameter in space.parameters}
    for number in survive.accepted[1:]:
        shared = {k: v for k, v in by_number[number].candidate.params.items() if k in searched}
        params = completed(space, space.clip({**space.user_params(), **shared}))
        if all(params != candidate.params for candidate in found):
            found.append(Candidate(params=params, origin=f"accepted by survive as #{number}"))
    return tuple(found)
