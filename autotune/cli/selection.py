"""Which job a reading command is about: a job file, a job's name, a database, or the latest one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from autotune.controller.assembly import database_url
from autotune.errors import Fault, InputError, StoreError
from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.records import StageName
from autotune.store.store import Store

RESULTS = Path("results")

JobOption = typer.Option(
    None, "--job", "-j", help="Job file, job name or database; default: the latest one in results/."
)

StageOption = typer.Option(None, "--stage", help="Only this stage: survive, speed, quality or finish.")


@dataclass(frozen=True)
class Selected:
    """A job's database, and its job file where that was named."""

    url: str
    job: Job | None = None
    job_file: Path | None = None


def select(job: str | None) -> Selected:
    """Finds the database that `job` means.

    Raises:
        StoreError: There is none.
        JobFileError: `job` is a job file with faults.
    """
    if job is None:
        return Selected(_url(_latest()))
    path = Path(job)
    if path.suffix in (".yaml", ".yml"):
        loaded = load_job(path)
        return Selected(database_url(loaded), loaded, path)
    if "://" in job:
        return Selected(job)
    database = path if path.suffix == ".db" or path.is_file() else RESULTS / f"{job}.db"
    return Selected(_url(database))


def open_selected(job: str | None) -> Store:
    """The selected job's database, for reading."""
    return Store.read(select(job).url)


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _latest() -> Path:
    found = sorted(RESULTS.glob("*.db"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise StoreError(
            Fault(
                where=str(RESULTS),
                found="no database",
                allowed="--job with a job file, a job's name or a database",
                next_step="run `autotune run JOB` first, or name the job",
            )
        )
    return found[-1]


def stage_named(name: str | None) -> StageName | None:
    """The stage of this name; None for None.

    Raises:
        InputError: There is no such stage.
    """
    if name is None:
        return None
    try:
        return StageName(name)
    except ValueError:
        allowed = ", ".join(stage.value for stage in StageName)
        raise InputError(
            Fault(where="--stage", found=name, allowed=allowed, next_step="name one of them")
        ) from None


def stored_job(store: Store) -> Job:
    """The job as it was when it was started last; for commands that are given no job file.

    Raises:
        StoreError: The database does not hold one.
    """
    text = store.provenance().get("job")
    if not isinstance(text, str):
        raise StoreError(
            Fault(
                where=store.url,
                found="no job file in the database",
                next_step="name the job file: --job JOB.yaml",
            )
        )
    return Job.model_validate_json(text)
