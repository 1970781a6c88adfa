"""Our tables, beside Optuna's in the same database; every name starts with `autotune_`.

Plain columns are what a person or a query filters and sorts by; whole records stand beside them as
JSON text of `store/codec.py`. Optuna owns trial state, parameters and values of the studies.
"""

from __future__ import annotations

from datetime import datetime, timezone

from sqlalchemy import DateTime, Dialect, ForeignKey, Index, Table, Text, TypeDecorator, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA_VERSION = 2
"""Raised by one with every change that an older autotune could not read."""


class UtcDateTime(TypeDecorator[datetime]):
    """Timezone-aware UTC in Python, naive UTC in the database, which has no time zones."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuses a naive time: nobody could say what it means."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored time must be timezone-aware, but got {value!r}")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Gives the time back as UTC."""
        return None if value is None else value.replace(tzinfo=timezone.utc)


class Base(DeclarativeBase):
    """Root of our tables."""

    type_annotation_map = {datetime: UtcDateTime, str: Text}  # noqa: RUF012 (SQLAlchemy's own form)


def table_of(row: type[Base]) -> Table:
    """The table of a class of rows, for plain statements."""
    table = row.__table__
    assert isinstance(table, Table)
    return table


class JobRow(Base):
    """Whose database this is. Exactly one row."""

    __tablename__ = "autotune_job"

    id: Mapped[int] = mapped_column(primary_key=True)
    schema_version: Mapped[int]
    job_name: Mapped[str]
    job_hash: Mapped[str]
    autotune_version: Mapped[str]
    """Of the autotune that made the database."""
    wall_s: Mapped[float] = mapped_column(default=0.0)
    """Seconds a controller worked on the job, over all resumptions."""
    provenance: Mapped[str] = mapped_column(default="{}")


class TrialRow(Base):
    """One trial of a stage."""

    __tablename__ = "autotune_trials"
    __table_args__ = (UniqueConstraint("stage", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str]
    number: Mapped[int]
    candidate: Mapped[str]
    overrides: Mapped[str]
    started_utc: Mapped[datetime]
    ended_utc: Mapped[datetime | None]
    outcome: Mapped[str | None]
    kind: Mapped[str | None]
    """Failure kind; repeats the verdict's, for queries."""
    objective: Mapped[float | None]
    accepted: Mapped[bool] = mapped_column(default=False)
    pruned: Mapped[bool] = mapped_column(default=False)
    verdict: Mapped[str | None]


class ForecastRow(Base):
    """What the memory forecast said of a trial before its launch."""

    __tablename__ = "autotune_forecasts"

    trial_id: Mapped[int] = mapped_column(ForeignKey("autotune_trials.id"), primary_key=True)
    phase: Mapped[str]
    """The worst one; repeats the judgement's, for queries."""
    probability_of_oom: Mapped[float]
    judgement: Mapped[str]


class AttemptRow(Base):
    """One launch of verl for a trial."""

    __tablename__ = "autotune_attempts"

    attempt_id: Mapped[str] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("autotune_trials.id"), index=True)
    attempt_index: Mapped[int]
    role: Mapped[str]
    state: Mapped[str] = mapped_column(index=True)
    folder: Mapped[str]
    devices: Mapped[int]
    started_utc: Mapped[datetime]
    last_seen_utc: Mapped[datetime]
    ended_utc: Mapped[datetime | None]
    device_s: Mapped[float] = mapped_column(default=0.0)
    """Written when it ends; while it runs, `devices` times the time since the start is counted."""
    ending: Mapped[str | None]
    verdict: Mapped[str | None]


class MetricRowRow(Base):
    """One step's line of verl's metrics file."""

    __tablename__ = "autotune_metric_rows"

    attempt_id: Mapped[str] = mapped_column(ForeignKey("autotune_attempts.attempt_id"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    at_s: Mapped[float]
    metrics: Mapped[str]


class MarkRow(Base):
    """A phase mark, a decisive console line or a guard's stop."""

    __tablename__ = "autotune_marks"
    __table_args__ = (UniqueConstraint("attempt_id", "identity"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("autotune_attempts.attempt_id"))
    identity: Mapped[str]
    """What makes it the same mark when it is read a second time after a crash."""
    at_s: Mapped[float]
    event: Mapped[str]


class MemorySampleRow(Base):
    """Memory of one device over time, thinned."""

    __tablename__ = "autotune_memory_samples"
    __table_args__ = (Index("autotune_memory_samples_by_device", "attempt_id", "device", "at_s"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("autotune_attempts.attempt_id"))
    device: Mapped[str]
    phase: Mapped[str]
    at_s: Mapped[float]
    used_gb: Mapped[float]
    capacity_gb: Mapped[float]
    host_gb: Mapped[float]


class MemoryPeakRow(Base):
    """The largest sample of a device in a phase, exact."""

    __tablename__ = "autotune_memory_peaks"

    attempt_id: Mapped[str] = mapped_column(ForeignKey("autotune_attempts.attempt_id"), primary_key=True)
    device: Mapped[str] = mapped_column(primary_key=True)
    phase: Mapped[str] = mapped_column(primary_key=True)
    at_s: Mapped[float]
    used_gb: Mapped[float]
    capacity_gb: Mapped[float]
    host_gb: Mapped[float]
    """The largest of the phase, which another sample may have seen."""


class FinishRow(Base):
    """The finish: what was settled before it, and the verdict. At most one row."""

    __tablename__ = "autotune_finish"

    id: Mapped[int] = mapped_column(primary_key=True)
    plan: Mapped[str]
    planned_utc: Mapped[datetime]
    ended_utc: Mapped[datetime | None]
    outcome: Mapped[str | None]
    verdict: Mapped[str | None]


class StageResultRow(Base):
    """How a stage ended."""

    __tablename__ = "autotune_stage_results"

    stage: Mapped[str] = mapped_column(primary_key=True)
    ended_utc: Mapped[datetime]
    acceptance_met: Mapped[bool]
    result: Mapped[str]
