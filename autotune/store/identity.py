"""Whose database is it? Creates our tables in a new one, refuses one that is not this job's."""

from __future__ import annotations

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session

from autotune.errors import Fault, StoreError
from autotune.store.database import Database
from autotune.store.tables import SCHEMA_VERSION, Base, JobRow


def claim(database: Database, *, job_name: str, job_hash: str, version: str) -> None:
    """Makes an empty database this job's, or checks that it is; one transaction.

    Raises:
        StoreError: made by a newer autotune, of another job, or of an earlier form of this job.
    """
    with database.writing() as session:
        _check_schema(session, database.where)
        Base.metadata.create_all(session.connection())
        row = session.scalars(select(JobRow)).one_or_none()
        if row is not None:
            _check_job(database.where, row, job_name, job_hash)
            return
        session.add(
            JobRow(
                id=1,
                schema_version=SCHEMA_VERSION,
                job_name=job_name,
                job_hash=job_hash,
                autotune_version=version,
            )
        )


def check(database: Database, *, job_name: str, job_hash: str) -> bool:
    """Whether an existing database is this job's already; False where it has no tables of ours yet.

    Raises:
        StoreError: as `claim`. Nothing is written.
    """
    with database.reading() as session:
        if not _check_schema(session, database.where):
            return False
        _check_job(database.where, session.scalars(select(JobRow)).one(), job_name, job_hash)
        return True


def stored_job_name(database: Database) -> str:
    """Whose database this is, for reading alone.

    Raises:
        StoreError: not a database of autotune, or made by a newer one.
    """
    with database.reading() as session:
        if _check_schema(session, database.where):
            return session.scalars(select(JobRow.job_name)).one()
    raise StoreError(
        Fault(
            where=database.where,
            key="storage",
            found="a database without autotune's tables",
            next_step="name the database of a job that `autotune run` has started",
        )
    )


def _check_schema(session: Session, where: str) -> bool:
    """False where the database is not ours yet. Reads only the columns that every version has."""
    if not inspect(session.connection()).has_table(JobRow.__tablename__):
        return False
    row = session.execute(select(JobRow.schema_version, JobRow.autotune_version)).one_or_none()
    if row is None or row.schema_version == SCHEMA_VERSION:
        return row is not None
    newer = row.schema_version > SCHEMA_VERSION
    raise StoreError(
        Fault(
            where=where,
            key="schema version",
            found=f"{row.schema_version}, made by {'a newer' if newer else 'an older'} autotune "
            f"({row.autotune_version})",
            allowed=str(SCHEMA_VERSION),
            next_step="upgrade verl-autotune"
            if newer
            else f"finish it with verl-autotune {row.autotune_version}, or start in another storage.results",
        )
    )


def _check_job(where: str, row: JobRow, job_name: str, job_hash: str) -> None:
    if row.job_name != job_name:
        raise StoreError(
            Fault(
                where=where,
                key="job name",
                found=f"the database of another job: {row.job_name} ({row.job_hash})",
                allowed=job_name,
                next_step="use another storage.results, or another name in the job file",
            )
        )
    if row.job_hash != job_hash:
        raise StoreError(
            Fault(
                where=where,
                key="job",
                found=f"trials of an earlier form of this job ({row.job_hash}); they cannot be compared "
                "with trials of the changed one",
                allowed=job_hash,
                next_step="undo the change, or give the job another name or another storage.results",
            )
        )
