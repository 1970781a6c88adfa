"""Why any verl run ended, from its console log alone: one pass in bounded memory.

The same signs, kinds and order of matching judge the trials; here nothing but the log is known, so
lines count instead of seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from autotune.judge import phases
from autotune.judge.classify import as_sentence, located
from autotune.judge.console_line import parse
from autotune.judge.console_metrics import metric_row, steps_asked
from autotune.judge.console_scan import ConsoleScan, ScannedLine
from autotune.judge.curves import CurveFault, Curves
from autotune.judge.evidence import Evidence
from autotune.judge.kinds import FailureKind, facts
from autotune.judge.log_reader import LogReader
from autotune.judge.patterns import COLLECTIVE, LAST_RESORT
from autotune.judge.printed_config import PrintedConfig
from autotune.records import FailureGroup, LogEvidence, Value

_LAST_LINES = 12
_TEXT_LIMIT = 500
_ALSO = 3
_RUN_STARTS = "ray init kwargs:"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a log says of its run."""

    kind: str | None
    """A failure kind, `unknown`, or None where nothing failed."""
    phase: str
    group: FailureGroup | None
    """Whose fault; None where nothing failed."""
    line: LogEvidence | None
    """The decisive line; None where figures, silence or nothing decided."""
    cause: str
    """For people, one or two sentences."""
    retry: bool
    """Whether the same configuration is worth another attempt."""
    finished: bool
    """Whether the run made all its steps."""
    steps: int
    """The last step that was made."""
    steps_asked: int | None
    values: Mapping[str, Value]
    """The configuration as far as the log shows it."""
    also: tuple[LogEvidence, ...] = ()
    """Other lines of the same worth or less."""
    last_lines: tuple[tuple[int, str], ...] = ()
    """The log's end, numbered, where nothing in it names a cause."""
    lines_read: int = 0
    size_bytes: int = 0


def explain(stream: BinaryIO) -> Explanation:
    """Reads a whole console log; of several runs in one file the last one counts."""
    scan = ConsoleScan(stream)
    run = _Run()
    for line in scan:
        if _RUN_STARTS in line.text and run.is_under_way:
            run = _Run(run.reader.line_number)
        run.see(line)
    found = run.explanation()
    tail = tuple((number, parse(text).text.strip()[:_TEXT_LIMIT]) for number, text in scan.tail(_LAST_LINES))
    return _complete(found, tail, scan)


def _complete(found: Explanation, tail: tuple[tuple[int, str], ...], scan: ConsoleScan) -> Explanation:
    shown = tail if found.kind == FailureKind.UNKNOWN.value else ()
    # dataclasses.replace would lose the keyword-only check; there are only three fields to fill in.
    return Explanation(
        **{**vars(found), "last_lines": shown, "lines_read": scan.lines, "size_bytes": scan.size_bytes}
    )


@dataclass
class _Run:
    """What is known of one run after the lines so far."""

    first_line: int = 0
    reader: LogReader = field(default_factory=LogReader)
    evidence: Evidence = field(default_factory=Evidence)
    config: PrintedConfig = field(default_factory=PrintedConfig)
    curves: Curves = field(default_factory=Curves)
    steps: int = 0
    last_row_line: int = 0
    finished_line: int = 0
    asked: int | None = None

    def __post_init__(self) -> None:
        self.reader.skip(self.first_line)

    @property
    def is_under_way(self) -> bool:
        """Whether the run has got past its start, so that another start is another run."""
        return self.reader.phase not in ("launch", "config")

    def see(self, line: ScannedLine) -> None:
        """Takes in a selected line."""
        self.reader.skip(line.number - 1 - self.reader.line_number)
        at_s = float(line.number)
        row = metric_row(line.text, at_s) if "step:" in line.text else None
        if row is not None:
            self.steps, self.last_row_line = max(self.steps, row.step), line.number
            self.curves.add(row)
        if "Training Progress" in line.text:
            self.asked = steps_asked(line.text) or self.asked
        elif row is not None:
            # Nothing in a row of figures failed, and taking its thousands of characters apart is slow.
            return
        if line.may_fail:
            for event in self.reader.feed(line.text, at_s):
                self.evidence.add(event)
        if self.reader.phase == "done" and not self.finished_line:
            self.finished_line = line.number
        if self.config.may_tell(line.text):
            self.config.see(parse(line.text))

    def explanation(self) -> Explanation:
        """The answer after the last line."""
        self._note_the_end()
        lines = self._ranked()
        curve = self.curves.fault()
        if curve is not None and _decides(curve, lines):
            return self._of_curve(curve, lines)
        if lines:
            return self._of_line(lines)
        return self._without_line()

    def _note_the_end(self) -> None:
        total = self.asked or self.config.values.get("trainer.total_training_steps")
        if isinstance(total, int) and 0 < total <= self.steps and not self.finished_line:
            self.finished_line = self.last_row_line

    def _ranked(self) -> list[LogEvidence]:
        """The lines with a kind, best first.

        What only hints, or only tells of a death, never speaks against a decisive line; then comes what
        no later step outlived. What stands after the last step belongs to the shutdown.
        """
        lines = [located(line, self.evidence) for line in self.evidence.log]
        known = [line for line in lines if line.kind != FailureKind.UNKNOWN.value]
        if self.finished_line:
            known = [line for line in known if line.line_number < self.finished_line]
        return sorted(
            known,
            key=lambda line: (
                line.level >= LAST_RESORT,
                line.kind == FailureKind.RAY_ACTOR_DEATH.value,
                line.line_number < self.last_row_line,
                line.level,
                line.line_number,
            ),
        )

    def _of_line(self, lines: list[LogEvidence]) -> Explanation:
        line = lines[0]
        kind, extra = line.kind, ""
        leak = self.curves.leak() if kind.startswith("oom_gpu_") and self.steps else None
        if leak is not None and not phases.is_start(line.phase):
            kind, extra = FailureKind.OOM_GPU_LEAK.value, f" {as_sentence(leak)}"
        if line.line_number < self.last_row_line:
            end = "finished" if self.finished_line else f"went on to step {self.steps}"
            extra += f" The run {end} after this line."
        return self._answer(kind, line.phase, extra, line=line, also=_others(lines))

    def _of_curve(self, curve: CurveFault, lines: list[LogEvidence]) -> Explanation:
        extra = f" {as_sentence(curve.reason)}"
        return self._answer(curve.kind, self._phase(), extra, also=tuple(lines[:_ALSO]))

    def _without_line(self) -> Explanation:
        if self.finished_line:
            cause = f"The run made all its {self.steps} steps; nothing in its log failed."
            return self._answer(None, "done", cause)
        where = f"in {self._phase()} after {self.steps} steps"
        if not self.is_under_way and not self.steps:
            where = "before verl had started"
        extra = f" It ends {where}: still running, ended from outside, hung, or cut off."
        return self._answer(FailureKind.UNKNOWN.value, self._phase(), extra)

    def _phase(self) -> str:
        return "done" if self.finished_line else self.reader.phase

    def _answer(
        self,
        kind: str | None,
        phase: str,
        extra: str,
        *,
        line: LogEvidence | None = None,
        also: tuple[LogEvidence, ...] = (),
    ) -> Explanation:
        known = facts(kind) if kind is not None else None
        sentence = _sentence(kind, phase) if kind is not None else ""
        return Explanation(
            kind=kind,
            phase=phase,
            group=known.group if known else None,
            line=line,
            cause=(sentence + extra).strip(),
            retry=bool(known and known.retries),
            finished=bool(self.finished_line),
            steps=self.steps,
            steps_asked=self.asked,
            values=self.config.values,
            also=also,
        )


def _decides(curve: CurveFault, lines: Iterable[LogEvidence]) -> bool:
    """Whether the figures explain more than the best line: NaN is what faults of a device come from."""
    best = next(iter(lines), None)
    if best is None or best.level >= LAST_RESORT:
        return True
    return curve.kind == FailureKind.NAN_INF.value and best.level >= COLLECTIVE


def _others(lines: list[LogEvidence]) -> tuple[LogEvidence, ...]:
    """The first line of each other kind."""
    seen, others = {lines[0].kind}, []
    for line in lines[1:]:
        if line.kind not in seen:
            seen.add(line.kind)
            others.append(line)
    return tuple(itertools.islice(others, _ALSO))


def _sentence(kind: str, phase: str) -> str:
    if kind == FailureKind.UNKNOWN.value:
        return "The log names no cause."
    return facts(kind).sentence.format(phase=phase)
