"""Events to plain values and back: what crosses process borders and lies in the database.

One object an event, `type` names its class, the other fields are the class's own. Fields that
this version does not know are left out on reading; missing ones take their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from autotune.records import (
    AttemptEnd,
    Event,
    GuardStop,
    LogEvidence,
    MemorySample,
    MetricRow,
    PhaseMark,
    Progress,
)

_CLASSES: Mapping[str, type[Any]] = {
    "metric_row": MetricRow,
    "phase_mark": PhaseMark,
    "memory_sample": MemorySample,
    "log_evidence": LogEvidence,
    "progress": Progress,
    "guard_stop": GuardStop,
    "attempt_end": AttemptEnd,
}
_TYPES = {event_class: name for name, event_class in _CLASSES.items()}


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as values that `json.dumps` takes."""
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(event).items()}
    return {"type": _TYPES[type(event)], **values}


def event_from_json(value: Mapping[str, Any]) -> Event:
    """The event that `event_to_json` wrote.

    Raises:
        ValueError: The type is not an event's, or a field without default is missing.
    """
    event_class = _CLASSES.get(value.get("type", ""))
    if event_class is None:
        raise ValueError(f"type must be one of {', '.join(_CLASSES)}, but got {value.get('type')!r}")
    known = {field.name for field in fields(event_class)}
    arguments = {
        key: tuple(found) if isinstance(found, list) else found
        for key, found in value.items()
        if key in known
    }
    try:
        event: Event = event_class(**arguments)
    except TypeError as error:
        raise ValueError(f"{value.get('type')}: {error}") from error
    return event
