"""Reads what a running attempt appends to its files, and turns it into events.

The runner reads while verl writes; `recorded` reads the same files afterwards with the same code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from autotune.job.paths import AttemptPaths
from autotune.judge.log_reader import LogReader
from autotune.judge.phases import from_timer
from autotune.records import Event, MemorySample, MetricRow, PhaseMark, Progress

READ_BYTES = 2**20
"""Most that is read of one file at a time: a flood of output must not stop the runner answering."""
LINE_BYTES = 2**16
"""Longer lines are cut here; what follows up to the line's end is dropped."""

LineParser = Callable[[str], "list[Event]"]


class LineTail:
    """The whole lines that were appended to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial = b""

    def read(self, limit_bytes: int = READ_BYTES) -> list[str]:
        """At most `limit_bytes` further on. A line counts once its newline is there.

        A file that has become shorter is read from its start: verl truncates its metrics file.
        """
        try:
            with open(self._path, "rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset, self._partial = 0, b""
                file.seek(self._offset)
                data = file.read(limit_bytes)
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *whole, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[:LINE_BYTES]
        return [_text(line) for line in whole]

    def read_rest(self) -> list[str]:
        """Everything up to the end of the file, a last line without newline included."""
        lines: list[str] = []
        before = -1
        while self._offset != before:
            before = self._offset
            lines += self.read()
        if self._partial:
            lines.append(_text(self._partial))
            self._partial = b""
        return lines


def _text(line: bytes) -> str:
    return line[:LINE_BYTES].decode("utf-8", errors="replace").rstrip("\r")


class AttemptReader:
    """Events of one attempt, from its console log, metrics file and phase marks."""

    def __init__(self, paths: AttemptPaths, *, started_unix_s: float) -> None:
        self._started_unix_s = started_unix_s
        self._console = LineTail(paths.console)
        self._metrics = LineTail(paths.metrics)
        self._phases = LineTail(paths.phases)
        self._log_reader = LogReader()
        self._progress_lines = 0
        self._progress_at_s = 0.0
        self.phase = "launch"
        """The phase that the attempt is in, as far as it was read."""

    def read(self, at_s: float) -> list[Event]:
        """What was appended since the last call, as of `at_s`, with the marks before the rows they time."""
        return self._parse(LineTail.read, at_s)

    def read_rest(self, at_s: float) -> list[Event]:
        """All that is left, once nothing writes any more."""
        return self._parse(LineTail.read_rest, at_s)

    def take_progress(self) -> Progress | None:
        """Signs of life on the console since the last call, as one event."""
        if not self._progress_lines:
            return None
        progress = Progress(at_s=self._progress_at_s, lines=self._progress_lines)
        self._progress_lines = 0
        return progress

    def _parse(self, read: Callable[[LineTail], list[str]], at_s: float) -> list[Event]:
        events: list[Event] = []
        # verl's log mostly tells of a phase before the plugin's marks go into its details.
        events += self._console_events(read(self._console), at_s)
        for line in read(self._phases):
            events += self._phase_events(line)
        for line in read(self._metrics):
            row = metric_row(line, at_s)
            if row is not None:
                events.append(row)
        return events

    def _console_events(self, lines: Iterable[str], at_s: float) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            for event in self._log_reader.feed(line, at_s):
                if isinstance(event, PhaseMark):
                    self.phase = event.phase
                events.append(event)
            if self._log_reader.counts_as_progress(line):
                self._progress_lines += 1
                self._progress_at_s = at_s
        return events

    def _phase_events(self, line: str) -> list[Event]:
        mark = _json_object(line)
        phase = from_timer(str(mark.get("phase_timer", "")))
        if phase is None or not isinstance(mark.get("time_s"), (int, float)):
            return []
        at_s = max(0.0, mark["time_s"] - self._started_unix_s)
        if mark.get("begin"):
            self.phase = phase
            return [PhaseMark(phase=phase, at_s=at_s)]
        return [
            MemorySample(
                at_s=at_s,
                phase=phase,
                device=f"rank:{worker['rank']}",
                used_gb=worker["used_gb"],
                capacity_gb=worker["cap_gb"],
            )
            for worker in mark.get("workers", ())
        ]


def metric_row(line: str, at_s: float) -> MetricRow | None:
    """One line of verl's metrics file; None where it is no row. Only numbers and nulls are kept."""
    values = _json_object(line)
    step, data = values.get("step"), values.get("data")
    if not isinstance(step, int) or not isinstance(data, dict):
        return None
    kept = {
        name: float(value) if value is not None and math.isfinite(value) else None
        for name, value in data.items()
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    }
    return MetricRow(step=step, at_s=at_s, values=kept)


def _json_object(line: str) -> dict[str, Any]:
    """The object on this line; empty where a killed writer left half a line."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
