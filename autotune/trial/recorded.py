"""Reads an attempt back from its folder: after a crash of the controller or the runner, and in tests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from autotune.job.paths import AttemptPaths
from autotune.judge.event_json import event_from_json
from autotune.records import AttemptEnd, Event, MetricRow, PhaseMark
from autotune.trial.running import read_running
from autotune.trial.tails import AttemptReader


def read_end(paths: AttemptPaths) -> AttemptEnd | None:
    """How the attempt's processes ended; None while they have not, or nobody was left to say so."""
    try:
        values: dict[str, Any] = json.loads(paths.end.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    end = event_from_json({"type": "attempt_end", **values})
    assert isinstance(end, AttemptEnd)
    return end


def read_attempt(paths: AttemptPaths) -> list[Event]:
    """The attempt's events, in time order; its end, where recorded, is the last one.

    The files carry times for the plugin's phase marks and the end only. A metric row is given the time
    at which the next step began, a milestone of the console log the time of the first mark after it,
    and log evidence the time of the attempt's end.
    """
    end = read_end(paths)
    running = read_running(paths.running)
    if running is None:
        return [end] if end else []
    reader = AttemptReader(paths, started_unix_s=running.started_unix_s)
    at_s = end.at_s if end else _last_write_s(paths, running.started_unix_s)
    events = _timed_by_marks(reader.read_rest(at_s), untimed_at_s=at_s)
    progress = reader.take_progress()
    if progress is not None:
        events.append(progress)
    events.sort(key=lambda event: event.at_s)  # stable: the log's own order stays
    return [*events, end] if end else events


def _timed_by_marks(events: list[Event], *, untimed_at_s: float) -> list[Event]:
    """Rows and milestones, which come in at `untimed_at_s`, at the marks that they belong to.

    A step begins with its rollout: the n-th row is written just before the rollout after it.
    """
    marks = [event for event in events if isinstance(event, PhaseMark) and event.at_s < untimed_at_s]
    begins_s = [mark.at_s for mark in marks if mark.phase == "rollout"]
    timed: list[Event] = []
    rows = 0
    for event in events:
        at_s = event.at_s
        if isinstance(event, MetricRow) and event.step > 0:  # step 0 is the validation before training
            rows += 1
            at_s = begins_s[rows] if rows < len(begins_s) else at_s
        elif isinstance(event, PhaseMark) and event.phase != "done" and marks:
            at_s = min(at_s, marks[0].at_s) if event.at_s >= untimed_at_s else at_s
        timed.append(replace(event, at_s=at_s))
    return timed


def _last_write_s(paths: AttemptPaths, started_unix_s: float) -> float:
    """Age of the attempt when one of its files was last written to."""
    written_s = [
        path.stat().st_mtime for path in (paths.console, paths.metrics, paths.phases) if path.exists()
    ]
    return max(0.0, max(written_s) - started_unix_s) if written_s else 0.0
