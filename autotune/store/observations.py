"""What an attempt reported, event by event: written in bulk, read back in time order.

Writing is idempotent: after a crash an attempt's folder is read again from its start, and what is
already stored is not stored twice. Signs of life (`Progress`) only move the attempt's `last_seen_utc`,
and the end is written with the attempt (`Store.end_attempt`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from autotune.judge.event_json import event_from_json, event_to_json
from autotune.records import Event, GuardStop, LogEvidence, MemorySample, MetricRow, PhaseMark
from autotune.store.codec import from_text, to_text
from autotune.store.tables import MarkRow, MemoryPeakRow, MemorySampleRow, MetricRowRow

MEMORY_SAMPLE_EVERY_S = 2.0
"""Finest grain of the stored memory curve of a device; peaks are kept exactly, whatever falls between."""

MOST_IN_A_LIST = 500
"""Databases limit how many values one statement may name."""

Mark = Union[PhaseMark, LogEvidence, GuardStop]


def write_events(session: Session, attempt_id: str, events: Sequence[Event]) -> None:
    """Adds what is not stored yet; the cost grows with `events`, not with what is stored."""
    _write_metric_rows(session, attempt_id, [event for event in events if isinstance(event, MetricRow)])
    _write_marks(
        session, attempt_id, [e for e in events if isinstance(e, (PhaseMark, LogEvidence, GuardStop))]
    )
    samples = [event for event in events if isinstance(event, MemorySample)]
    if samples:
        _write_memory_curve(session, attempt_id, samples)
        _write_memory_peaks(session, attempt_id, samples)


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


def _write_metric_rows(session: Session, attempt_id: str, rows: Sequence[MetricRow]) -> None:
    by_step = {row.step: row for row in reversed(rows)}  # the first of a step wins, as with stored ones
    if not by_step:
        return
    stored = session.scalars(
        select(MetricRowRow.step)
        .where(MetricRowRow.attempt_id == attempt_id)
        .where(MetricRowRow.step.between(min(by_step), max(by_step)))
    )
    for step in stored:
        by_step.pop(step, None)
    _insert(
        session,
        MetricRowRow,
        (
            {"attempt_id": attempt_id, "step": row.step, "at_s": row.at_s, "metrics": to_text(row.values)}
            for _, row in sorted(by_step.items())
        ),
    )


def _write_marks(session: Session, attempt_id: str, marks: Sequence[Mark]) -> None:
    by_identity = {_identity(mark): mark for mark in marks}
    if not by_identity:
        return
    identities = list(by_identity)
    for start in range(0, len(identities), MOST_IN_A_LIST):
        stored = session.scalars(
            select(MarkRow.identity)
            .where(MarkRow.attempt_id == attempt_id)
            .where(MarkRow.identity.in_(identities[start : start + MOST_IN_A_LIST]))
        )
        for identity in stored:
            by_identity.pop(identity, None)
    _insert(
        session,
        MarkRow,
        (
            {
                "attempt_id": attempt_id,
                "identity": identity,
                "at_s": mark.at_s,
                "event": to_text(event_to_json(mark)),
            }
            for identity, mark in by_identity.items()
        ),
    )


def _identity(mark: Mark) -> str:
    if isinstance(mark, LogEvidence):
        return f"log {mark.line_number} {mark.kind}"
    if isinstance(mark, PhaseMark):
        return f"phase {mark.at_s!r} {mark.phase}"
    return f"guard {mark.at_s!r} {mark.kind}"


def _write_memory_curve(session: Session, attempt_id: str, samples: Sequence[MemorySample]) -> None:
    newest_s: dict[str, float] = {
        device: at_s
        for device, at_s in session.execute(
            select(MemorySampleRow.device, func.max(MemorySampleRow.at_s))
            .where(MemorySampleRow.attempt_id == attempt_id)
            .group_by(MemorySampleRow.device)
        )
    }
    kept = []
    for sample in samples:
        last_s = newest_s.get(sample.device)
        if last_s is None or sample.at_s - last_s >= MEMORY_SAMPLE_EVERY_S:
            newest_s[sample.device] = sample.at_s
            kept.append(_memory_values(attempt_id, sample))
    _insert(session, MemorySampleRow, kept)


def _write_memory_peaks(session: Session, attempt_id: str, samples: Sequence[MemorySample]) -> None:
    stored = {
        (row.device, row.phase): row
        for row in session.scalars(select(MemoryPeakRow).where(MemoryPeakRow.attempt_id == attempt_id))
    }
    for sample in samples:
        place = (sample.device, sample.phase)
        peak = stored.get(place)
        if peak is None:
            stored[place] = MemoryPeakRow(**_memory_values(attempt_id, sample))
            session.add(stored[place])
            continue
        host_gb = max(peak.host_gb, sample.host_gb)
        if sample.used_gb > peak.used_gb:
            for name, value in _memory_values(attempt_id, sample).items():
                setattr(peak, name, value)
        peak.host_gb = host_gb


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
    curve = _read_samples(session, MemorySampleRow, attempt_id)
    peaks = _read_samples(session, MemoryPeakRow, attempt_id)
    return list(dict.fromkeys(curve + peaks))


def _read_samples(
    session: Session, table: type[MemorySampleRow] | type[MemoryPeakRow], attempt_id: str
) -> list[MemorySample]:
    rows = session.execute(
        select(table.at_s, table.phase, table.device, table.used_gb, table.capacity_gb, table.host_gb)
        .where(table.attempt_id == attempt_id)
        .order_by(table.at_s)
    )
    return [MemorySample(**row) for row in rows.mappings()]


def _insert(session: Session, table: type[Any], rows: Iterable[Mapping[str, Any]]) -> None:
    values = [dict(row) for row in rows]
    if values:
        session.execute(insert(table), values)
