"""verl's console metric lines: `step:12 - actor/entropy:0.41 - perf/throughput:1532.0 ...`."""

from __future__ import annotations

import math
import re

from autotune.judge.console_line import parse
from autotune.records import MetricRow

_ROW = re.compile(r"step:(?P<step>\d+) - (?P<values>\S+:.*)$")
# numpy 2 prints np.float64(0.5); a dictionary or text is not a figure.
_FIGURE = re.compile(
    r"(?P<key>[\w@./+-]+):(?:np\.\w+\(|tensor\()?"
    r"(?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))\)?(?= - |$)",
    re.IGNORECASE,
)
_BAR = re.compile(r"Training Progress:.*?(\d+)/(\d+) \[")
# A metric line is longer than any other; `parse` looks at the head of a line only.
_HEAD_CHARS = 400


def metric_row(line: str, at_s: float) -> MetricRow | None:
    """The row of a metric line, None for any other line. NaN and Inf become None, as in verl's file.

    A line that is cut off gives the figures that are whole.
    """
    head = parse(line[:_HEAD_CHARS]).text
    if not head.startswith("step:"):
        return None
    text = line[line.find("step:") :].rstrip()
    found = _ROW.match(text)
    if found is None:
        return None
    values: dict[str, float | None] = {}
    for figure in _FIGURE.finditer(found["values"]):
        number = float(figure["value"])
        values[figure["key"]] = number if math.isfinite(number) else None
    return MetricRow(step=int(found["step"]), at_s=at_s, values=values) if values else None


def steps_asked(line: str) -> int | None:
    """How many steps the run is to make, as its progress bar tells; None for any other line."""
    bars = _BAR.findall(line)
    return int(bars[-1][1]) if bars else None
