"""Recorded runs as events, and short ways to make events by hand."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from autotune.judge.log_reader import LogReader
from autotune.records import Event, LogEvidence, MetricRow, PhaseMark, Progress

DATA = Path(__file__).parents[1] / "data" / "judge"


@functools.cache
def console_lines(name: str) -> tuple[str, ...]:
    return tuple((DATA / f"{name}.console.log").read_bytes().decode(errors="replace").split("\n"))


def metric_rows(name: str) -> list[MetricRow]:
    rows, at_s = [], 60.0
    for line in (DATA / f"{name}.metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        at_s += record["data"]["timing_s/step"]
        rows.append(MetricRow(step=record["step"], at_s=at_s, values=record["data"]))
    return rows


def read(lines: Iterable[str], *, s_per_line: float = 0.01) -> Iterator[Event]:
    """What a tailer makes of console lines that come at an even pace."""
    reader = LogReader()
    for index, line in enumerate(lines):
        at_s = index * s_per_line
        yield from reader.feed(line, at_s)
        if reader.counts_as_progress(line):
            yield Progress(at_s=at_s, lines=1)


def evidence_of(lines: Iterable[str]) -> list[LogEvidence]:
    found = [event for event in read(lines) if isinstance(event, LogEvidence)]
    return sorted(found, key=lambda line: (line.level, line.line_number))


def kind_of(lines: Iterable[str]) -> str:
    found = evidence_of(lines)
    return found[0].kind if found else "unknown"


def rows(count: int, *, every_s: float = 3.0, start_s: float = 60.0, **columns: object) -> list[MetricRow]:
    """Rows with finite figures; a column is one value for all steps or a list of one per step."""
    made = []
    for index in range(count):
        values: dict[str, float | None] = {
            "critic/rewards/mean": 0.5,
            "critic/score/max": 1.0,
            "critic/score/min": 0.0,
            "actor/grad_norm": 1.0,
            "actor/kl_loss": 0.01,
            "perf/throughput": 1000.0,
            "perf/time_per_step": every_s,
            "timing_s/step": every_s,
        }
        values.update({_key(name): _at(column, index) for name, column in columns.items()})
        made.append(MetricRow(step=index + 1, at_s=start_s + every_s * (index + 1), values=values))
    return made


def marks(*phases: str, every_s: float = 1.0) -> list[PhaseMark]:
    return [PhaseMark(phase=phase, at_s=every_s * index) for index, phase in enumerate(phases)]


_NAMES: Mapping[str, str] = {
    "reward": "critic/rewards/mean",
    "best": "critic/score/max",
    "worst": "critic/score/min",
    "gradient": "actor/grad_norm",
    "kl": "actor/kl_loss",
    "entropy": "actor/entropy",
    "throughput": "perf/throughput",
}


def _key(name: str) -> str:
    return _NAMES.get(name, name)


def _at(column: object, index: int) -> float | None:
    return column[index] if isinstance(column, list) else column  # type: ignore[return-value]
