"""What an attempt reported, event by event: written in bulk, read back in time order.

Writing is idempotent: after a crash an attempt's folder is read again from its start, and what is
already stored is not stored twice. Signs of life (`Progress`) only move the attempt's `last_seen_utc`,
and the end is written with the attempt (`Store.end_attempt`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Union

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.orm import Session

from autotune.judge.event_json import event_from_json, event_to_json
from autotune.records import Event, GuardStop, LogEvidence, MemorySample, MetricRow, PhaseMark
from autotune.store.codec import from_text, to_text
from autotune.store.tables import (
    AttemptRow,
    Base,
    MarkRow,
    MemoryPeakRow,
    MemorySampleRow,
    MetricRowRow,
    table_of,
)

MEMORY_SAMPLE_EVERY_S = 2.0
"""Finest grain of the stored memory curve of a device; peaks are kept exactly, whatever falls between."""

Mark = Union[PhaseMark, LogEvidence, GuardStop]


@dataclass
class Observed:
    """What is stored of one attempt, as far as it decides whether an event is new.

    The one writer keeps it while the attempt lives, so that nothing is read again to write the next row.
    """

    last_seen_utc: datetime
    steps: set[int] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    newest_sample_s: dict[str, float] = field(default_factory=dict)
    """By device, of its memory curve."""
    peaks: dict[tuple[str, str], MemorySample] = field(default_factory=dict)
    """By device and phase."""


def read_observed(connection: Connection, attempt_id: str) -> Observed:
    """What is stored of an attempt that another process may have begun.

    Raises:
        ValueError: no such attempt.
    """
    attempts, row, mark, one = (
        table_of(row).c for row in (AttemptRow, MetricRowRow, MarkRow, MemorySampleRow)
    )
    last_seen_utc = connection.scalar(select(attempts.last_seen_utc).where(attempts.attempt_id == attempt_id))
    if last_seen_utc is None:
        raise ValueError(f"no attempt has the id {attempt_id}")
    newest = select(one.device, func.max(one.at_s)).where(one.attempt_id == attempt_id).group_by(one.device)
    return Observed(
        last_seen_utc=last_seen_utc,
        steps=set(connection.scalars(select(row.step).where(row.attempt_id == attempt_id))),
        marks=set(connection.scalars(select(mark.identity).where(mark.attempt_id == attempt_id))),
        newest_sample_s={device: at_s for device, at_s in connection.execute(newest)},
        peaks={
            (peak.device, peak.phase): peak for peak in _read_samples(connection, MemoryPeakRow, attempt_id)
        },
    )


def write_events(
    connection: Connection, attempt_id: str, events: Sequence[Event], observed: Observed
) -> None:
    """Adds what is not in `observed` yet, and notes it there."""
    _write_metric_rows(connection, attempt_id, (e for e in events if isinstance(e, MetricRow)), observed)
    marks = (e for e in events if isinstance(e, (PhaseMark, LogEvidence, GuardStop)))
    _write_marks(connection, attempt_id, marks, observed)
    samples = [event for event in events if isinstance(event, MemorySample)]
    if samples:
        _write_memory_curve(connection, attempt_id, samples, observed)
        _write_memory_peaks(connection, attempt_id, samples, observed)


def read_metric_rows(session: Session, attempt_id: str) -> list[MetricRow]:
    """The attempt's metric rows by step."""
    rows = session.execute(
        select(MetricRowRow.step, MetricRowRow.at_s, MetricRowRow.metrics)
        .where(MetricRowRow.attempt_id == attempt_id)
        .order_by(MetricRowRow.step)
    )
    return [MetricRow(step=step, at_s=at_s, values=from_text(text)) for step, at_s, text in rows]


def read_events(session: Session, attempt_id: str) -> list[Event]:
    """Metric rows, marks and memory samples (peaks among them) by `at_s`."""
    marks = session.execute(
        select(MarkRow.event).where(MarkRow.attempt_id == attempt_id).order_by(MarkRow.id)
    ).scalars()
    events: list[Event] = [event_from_json(from_text(text)) for text in marks]
    events += read_metric_rows(session, attempt_id)
    events += _memory_samples(session, attempt_id)
    return sorted(events, key=lambda event: event.at_s)


def _write_metric_rows(
    connection: Connection, attempt_id: str, rows: Iterable[MetricRow], observed: Observed
) -> None:
    new = []
    for row in rows:  # the first of a step stays
        if row.step not in observed.steps:
            observed.steps.add(row.step)
            values = to_text(row.values)
            new.append({"attempt_id": attempt_id, "step": row.step, "at_s": row.at_s, "metrics": values})
    _insert(connection, MetricRowRow, new)


def _write_marks(connection: Connection, attempt_id: str, marks: Iterable[Mark], observed: Observed) -> None:
    new = []
    for mark in marks:
        identity = _identity(mark)
        if identity not in observed.marks:
            observed.marks.add(identity)
            text = to_text(event_to_json(mark))
            new.append({"attempt_id": attempt_id, "identity": identity, "at_s": mark.at_s, "event": text})
    _insert(connection, MarkRow, new)


def _identity(mark: Mark) -> str:
    if isinstance(mark, LogEvidence):
        return f"log {mark.line_number} {mark.kind}"
    if isinstance(mark, PhaseMark):
        return f"phase {mark.at_s!r} {mark.phase}"
    return f"guard {mark.at_s!r} {mark.kind}"


def _write_memory_curve(
    connection: Connection, attempt_id: str, samples: Sequence[MemorySample], observed: Observed
) -> None:
    kept = []
    for sample in samples:
        last_s = observed.newest_sample_s.get(sample.device)
        if last_s is None or sample.at_s - last_s >= MEMORY_SAMPLE_EVERY_S:
            observed.newest_sample_s[sample.device] = sample.at_s
            kept.append(_memory_values(attempt_id, sample))
    _insert(connection, MemorySampleRow, kept)


def _write_memory_peaks(
    connection: Connection, attempt_id: str, samples: Sequence[MemorySample], observed: Observed
) -> None:
    peaks = dict(observed.peaks)
    for sample in samples:
        place = (sample.device, sample.phase)
        peak = peaks.get(place)
        if peak is None:
            peaks[place] = sample
        else:
            larger = sample if sample.used_gb > peak.used_gb else peak
            peaks[place] = replace(larger, host_gb=max(peak.host_gb, sample.host_gb))
    new = {place: peak for place, peak in peaks.items() if place not in observed.peaks}
    _insert(connection, MemoryPeakRow, [_memory_values(attempt_id, peak) for peak in new.values()])
    for place, peak in peaks.items():
        if place not in new and peak != observed.peaks[place]:
            values = _memory_values(attempt_id, peak)
            own = {name: values.pop(name) for name in ("attempt_id", "device", "phase")}
            connection.execute(update(table_of(MemoryPeakRow)).filter_by(**own).values(values))
    observed.peaks = peaks


def _memory_values(attempt_id: str, sample: MemorySample) -> dict[str, Any]:
    return {
        "attempt_id": attempt_id,
        "device": sample.device,
        "phase": sample.phase,
        "at_s": sample.at_s,
        "used_gb": sample.used_gb,
        "capacity_gb": sample.capacity_gb,
        "host_gb": sample.host_gb,
    }


def _memory_samples(session: Session, attempt_id: str) -> list[MemorySample]:
    connection = session.connection()
    curve = _read_samples(connection, MemorySampleRow, attempt_id)
    peaks = _read_samples(connection, MemoryPeakRow, attempt_id)
    return list(dict.fromkeys(curve + peaks))


def _read_samples(
    connection: Connection, table: type[MemorySampleRow] | type[MemoryPeakRow], attempt_id: str
) -> list[MemorySample]:
    rows = connection.execute(
        select(table.at_s, table.phase, table.device, table.used_gb, table.capacity_gb, table.host_gb)
        .where(table.attempt_id == attempt_id)
        .order_by(table.at_s)
    )
    return [MemorySample(**row) for row in rows.mappings()]


def _insert(connection: Connection, table: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table_of(table)), rows)
