"""One stage climbed by the product's own controller, store and studies over a replaying launcher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.controller.climb import StageClimb
from autotune.controller.loop import Controller
from autotune.controller.progress import SilentWatcher
from autotune.controller.services import Services
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.job.resolved_space import ResolvedSpace
from autotune.records import Candidate, StageName
from autotune.search.study import StageStudy, open_storage
from autotune.store.store import Store
from benchmarks.replay.launcher import PlainPreparer, ReplayLauncher

_ANY_SPACE = {"name": "replayed", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
"""The section's own space is never looked at: the resolved one is given."""


def speed_job(folder: Path, *, steps: int, trials: int, seed: int = 0, **speed: Any) -> Job:
    """A job whose speed stage is climbed over replayed trials; `speed` are further fields of the stage."""
    return Job.model_validate(
        {
            "name": "replayed",
            "verl": {"overrides": {}},
            "resources": {"device": "cpu"},
            "storage": {"results": str(folder)},
            "stages": {
                "survive": {"search_space": _ANY_SPACE, "steps": 2, "trials": 1},
                "speed": {
                    "search_space": _ANY_SPACE,
                    "steps": steps,
                    "trials": trials,
                    "seed": seed,
                    **speed,
                },
            },
        }
    )


@dataclass(frozen=True)
class Replay:
    """A controller that is ready to climb."""

    controller: Controller
    climb: StageClimb
    store: Store
    database: Path


@contextmanager
def speed_stage(
    job: Job, space: ResolvedSpace, launcher: ReplayLauncher, climb_class: type[StageClimb] = StageClimb
) -> Iterator[Replay]:
    """The speed stage of `job` over `space`, starting from the space's own user configuration."""
    paths = JobPaths(Path(job.storage.results), job.name)
    url = f"sqlite:///{paths.database}"
    stage = StageName.SPEED
    with Store.open(url, job_name=job.name, job_hash="0" * 16, version="benchmark") as store:
        watcher = SilentWatcher()
        services = Services(
            job=job,
            store=store,
            launcher=launcher,
            preparer=PlainPreparer(),  # type: ignore[arg-type]
            paths=paths,
            clock=launcher.clock,
            watcher=watcher,
        )
        controller = Controller(job, store=store, launcher=launcher, clock=launcher.clock, watcher=watcher)
        section = job.stage(stage)
        assert section is not None
        study = StageStudy(open_storage(url), job_name=job.name, stage=stage, space=space, seed=section.seed)
        first = (Candidate(params=space.user_params(), origin="survivor, repeated"),)
        climb = climb_class(services, stage, study=study, space=space, carried={}, first=first)
        yield Replay(controller, climb, store, Path(paths.database))
