"""The ways to search that are compared; each returns how many launches its first accepted trial took."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import optuna

from autotune.clock import ManualClock
from autotune.controller.climb import StageClimb
from autotune.controller.ladder_run import run_ladder, stage_space
from autotune.controller.loop import Controller
from autotune.controller.progress import SilentWatcher
from autotune.controller.services import Services
from autotune.errors import NothingFeasibleError
from autotune.forecast.keys import MODEL
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.job.space_resolution import ResolvedSpace
from autotune.ladder.objective import survived
from autotune.records import AttemptEnd, Candidate, Figures, Overrides, StageName
from autotune.search.moves import point
from autotune.search.study import StageStudy, open_storage
from autotune.store.store import Store
from autotune.trial.preparation import Preparer
from autotune.verl_config.compose import ResolvedConfig
from benchmarks.first_feasible.landscape import Landscape, Tightness
from benchmarks.first_feasible.replay import NothingRefused, ReplayLauncher

MOST_LAUNCHES = 200
SURVIVE = StageName.SURVIVE


@dataclass(frozen=True)
class Setting:
    """The job to search and the device to fit into."""

    job: Job
    landscape: Landscape
    tight: Tightness
    model: Path
    """Folder with the model's config.json."""


@dataclass(frozen=True)
class Found:
    """How a search went."""

    launches: int | None
    """Until the first accepted trial, that one included; None: none was found."""
    rejected: int = 0
    """Candidates that were not launched."""


def stage(setting: Setting, start: Overrides, seed: int, *, forecast: bool) -> Found:
    """The product's survive stage as it is: own configuration, repairs, safest point, sampler."""
    with _rig(setting, start, seed, forecast=forecast) as (services, launcher):
        controller = Controller(
            services.job,
            store=services.store,
            launcher=launcher,
            clock=services.clock,
            watcher=services.watcher,
        )
        try:
            run_ladder(services, controller, [SURVIVE])
        except NothingFeasibleError:
            return Found(None, _rejected(services.store, launcher))
        return Found(launcher.launched, _rejected(services.store, launcher))


def sampler(setting: Setting, start: Overrides, seed: int, *, forecast: bool) -> Found:
    """The product's trials, tellings and sampler without its strategy: no repair, no safest point."""
    with _rig(setting, start, seed, forecast=forecast) as (services, launcher):
        section = services.job.stages.survive
        space = stage_space(services.job, section, services.preparer, {})
        study = StageStudy(
            open_storage(services.store.url), job_name="bench", stage=SURVIVE, space=space, seed=seed
        )
        climb = StageClimb(services, SURVIVE, study=study, space=space, carried={})
        candidate: Candidate | None = Candidate(params=space.user_params(), origin="user configuration")
        while candidate is not None and not climb.view().is_full:
            climb.start(candidate)
            for attempt_id, event in launcher.poll():
                flight = climb.flights[attempt_id]
                climb.observe(flight, [event])
                if isinstance(event, AttemptEnd):
                    climb.settle(flight, event, stopped=None)
            if any(trial.accepted for trial in climb.view().trials):
                return Found(launcher.launched, _rejected(services.store, launcher))
            candidate = climb.sampled()
        return Found(None, _rejected(services.store, launcher))


def plain(setting: Setting, start: Overrides, seed: int, *, tpe: bool) -> Found:
    """Optuna by itself with its defaults: what ran out of memory is PRUNED, nothing else is told of it."""
    space = space_of(setting, start)
    samplers = optuna.samplers
    study = optuna.create_study(
        direction="maximize",
        sampler=samplers.TPESampler(seed=seed) if tpe else samplers.RandomSampler(seed=seed),
    )
    study.enqueue_trial(dict(space.user_params()))
    for launches in range(1, MOST_LAUNCHES + 1):
        trial = study.ask()
        params = point(space, lambda p, t=trial: t.suggest_categorical(p.key, p.choices))  # type: ignore[misc]
        peak_gb = max(setting.landscape.peaks_gb(params.get).values())
        if peak_gb <= setting.tight.limit_gb:
            return Found(launches)
        if peak_gb > setting.tight.capacity_gb:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            frac = peak_gb / setting.tight.capacity_gb
            study.tell(trial, survived(Figures(steps=4, steps_asked=4, peak_memory_frac=frac)))
    return Found(None)


def _rejected(store: Store, launcher: ReplayLauncher) -> int:
    return len(store.trials(SURVIVE)) - launcher.launched


def space_of(setting: Setting, start: Overrides) -> ResolvedSpace:
    """The survive space of a job whose own configuration is `start`."""
    job = _started(setting.job, start)
    return stage_space(job, job.stages.survive, _SharedPreparer(job, Path()), {})


class _SharedPreparer(Preparer):
    """Composes each configuration once for all seeds: those differ in folders and seeds, not in memory."""

    _composed: ClassVar[dict[str, ResolvedConfig]] = {}
    _own = ("trainer.default_local_dir", "data.seed")

    def __init__(self, job: Job, folder: Path) -> None:
        super().__init__(job, validator=NothingRefused(), working_directory=folder, python="python")  # type: ignore[arg-type]
        self._base = {**job.verl.overrides}

    def resolve(self, overrides: Overrides) -> ResolvedConfig:
        """As `Preparer.resolve`, with the folder and the seed of whoever came first."""
        settings = {**self._base, **overrides}
        key = json.dumps({k: v for k, v in settings.items() if k not in self._own}, sort_keys=True)
        if key not in self._composed:
            self._composed[key] = super().resolve(overrides)
        return self._composed[key]


def _started(job: Job, start: Overrides) -> Job:
    """The job as a user would have it whose own configuration is `start`."""
    overrides = {**job.verl.overrides, **dict(start)}
    return job.model_copy(update={"verl": job.verl.model_copy(update={"overrides": overrides})})


@contextmanager
def _rig(
    setting: Setting, start: Overrides, seed: int, *, forecast: bool
) -> Iterator[tuple[Services, ReplayLauncher]]:
    """The product's services on a folder of their own; of a model that is not known nothing is forecast."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = str(setting.model) if forecast else "unknown"
        job = _started(setting.job, {**dict(start), f"{MODEL}.path": model})
        job = _on_device(job, folder, setting.tight.capacity_gb, seed)
        clock = ManualClock()
        launcher = ReplayLauncher(setting.landscape, setting.tight.capacity_gb, clock)
        paths = JobPaths(folder, job.name)
        url = f"sqlite:///{paths.database}"
        with Store.open(url, job_name=job.name, job_hash="0" * 16, version="benchmark") as store:
            yield (
                Services(
                    job=job,
                    store=store,
                    launcher=launcher,
                    preparer=_SharedPreparer(job, folder),
                    paths=paths,
                    clock=clock,
                    watcher=SilentWatcher(),
                ),
                launcher,
            )


def _on_device(job: Job, folder: Path, cap_gb: float, seed: int) -> Job:
    cpu = job.resources.cpu.model_copy(update={"worker_memory_cap_gb": cap_gb})
    survive = job.stages.survive.model_copy(
        update={"seed": seed, "trials": MOST_LAUNCHES, "certificate": None}
    )
    return job.model_copy(
        update={
            "resources": job.resources.model_copy(update={"cpu": cpu}),
            "storage": job.storage.model_copy(update={"results": str(folder)}),
            "budget": job.budget.model_copy(update={"wall_hours": None}),
            "stages": job.stages.model_copy(update={"survive": survive}),
        }
    )
