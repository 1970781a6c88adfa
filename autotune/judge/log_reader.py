"""Console lines to events: phase milestones, and the lines that say why something went wrong.

Incremental and bounded: it remembers the failing calls of the last writers and the shapes of the
last lines, never the log itself. Colours and prefixes do not change the result.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Union

from autotune.judge import phases
from autotune.judge.attribution import attribute
from autotune.judge.console_line import ConsoleLine, parse
from autotune.judge.traceback import FailingCall
from autotune.judge.wrappers import EXCEPTION, QUOTED
from autotune.records import LogEvidence, PhaseMark

_TEXT_LIMIT = 500
_WRITERS_REMEMBERED = 64
_SHAPES_REMEMBERED = 256
_FORGET_CALLS_AFTER_LINES = 200
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_BAR = re.compile(r"(\d+)%\||(\d+)/(\d+) \[|(\d+(?:\.\d+)?)%")
_NOISE = re.compile(
    r"target_num_threads|Avg prompt throughput|timed out \(attempt|\[repeated \d+x|heartbeat"
    r"|still waiting|Waiting for|resource_tracker|Using blocking ray\.get"
)
_STEP_ROW = re.compile(r"^step:\d+ - ")


class LogReader:
    """Reads one attempt's console log, line by line."""

    def __init__(self) -> None:
        self.line_number = 0
        """Lines fed so far."""
        self.phase = phases.PHASES[0]
        """Last start-up milestone, or `rollout` for the whole time of the steps."""
        self._calls: OrderedDict[str, FailingCall] = OrderedDict()
        self._shapes: OrderedDict[str, str] = OrderedDict()

    def feed(self, line: str, at_s: float) -> list[Union[PhaseMark, LogEvidence]]:
        """Takes in the next line; returns what it means, mostly nothing."""
        self.line_number += 1
        parsed = parse(line)
        found: list[Union[PhaseMark, LogEvidence]] = []
        entered = phases.milestone(parsed.text)
        if entered is not None and self._is_later(entered):
            self.phase = entered
            found.append(PhaseMark(phase=entered, at_s=at_s))
        call = self._call_of(parsed.source)
        call.see(parsed.text)
        evidence = self._evidence(parsed, call, at_s)
        if evidence is not None:
            found.append(evidence)
        if call.ends_here and EXCEPTION.match(parsed.text) and not QUOTED.search(parsed.text):
            call.forget()
        return found

    def skip(self, lines: int) -> None:
        """Passes over lines known to mean nothing; a call that failed long before them is forgotten."""
        self.line_number += lines
        if lines >= _FORGET_CALLS_AFTER_LINES:
            self._calls.clear()

    def counts_as_progress(self, line: str) -> bool:
        """Whether the line is a sign of life: something new, not a repeated warning or heartbeat.

        A progress bar counts when it moved. Call it once per line, in order, besides `feed`.
        """
        if _NOISE.search(line):
            return False
        text = parse(line).text.strip()
        if not text:
            return False
        if _STEP_ROW.match(text):
            return True
        shape = _NUMBER.sub("#", text[:200])
        moved = str(_BAR.findall(text))
        known = self._shapes.pop(shape, None)
        self._shapes[shape] = moved
        if len(self._shapes) > _SHAPES_REMEMBERED:
            self._shapes.popitem(last=False)
        return known is None or known != moved

    def _is_later(self, entered: str) -> bool:
        return phases.PHASES.index(entered) > phases.PHASES.index(self.phase)

    def _call_of(self, source: str) -> FailingCall:
        call = self._calls.pop(source, None) or FailingCall()
        self._calls[source] = call
        if len(self._calls) > _WRITERS_REMEMBERED:
            self._calls.popitem(last=False)
        return call

    def _evidence(self, line: ConsoleLine, call: FailingCall, at_s: float) -> LogEvidence | None:
        found = attribute(line, call, self._start_phase())
        if found is None:
            return None
        return LogEvidence(
            line_number=self.line_number,
            text=line.text.strip()[:_TEXT_LIMIT],
            kind=found.kind,
            phase=found.phase or self.phase,
            level=found.level,
            at_s=at_s,
        )

    def _start_phase(self) -> str:
        # Inside the steps the console does not tell the phase; `ready` lies before the first of them.
        return self.phase if phases.is_start(self.phase) and self.phase != "launch" else ""
