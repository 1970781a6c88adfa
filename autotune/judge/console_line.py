"""One console line taken apart: colours, Ray's and vLLM's prefixes, and the text itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST = 8000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")

# Each of these may stand before the text, in any order and nested. One blank after it at most is
# taken, so that the indentation of traceback frames stays.
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        # (WorkerDict pid=1, ip=10.0.0.1)   (EngineCore_DP0 pid=2)   (raylet)   (pid=3)
        r"\((?P<source>(?:[\w.<>:/-]+ )?pid=\d+|raylet|autoscaler|gcs_server)(?:,[^)]*)?\) ?",
        # [rank0]:   [rank3]:[E401 ...]
        r"\[(?P<source>rank\d+)\]: ?",
        # vLLM: ERROR 12-01 05:20:21 [core.py:1581]
        r"(?P<level>ERROR|WARNING|INFO|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[?[\w/.-]+:\d+\])? ?",
        # logging: INFO:2026-12-01 05:20:20,142:
        r"(?P<level>ERROR|WARNING|INFO|DEBUG|CRITICAL):(?:[\w.]+:)?(?:\d{4}-\d\d-\d\d [\d:,]+:)?",
        # Ray's C++ log: [2026-12-01 05:22:01,404 E 2067 2067]
        r"\[\d{4}-\d\d-\d\d [\d:,.]+ [A-Z] \d+ \d+\] ?",
        # 2026-12-01T05:20:20.142Z   2026-12-01 05:20:20,142 - ERROR - package -
        r"\d{4}-\d\d-\d\d[T ][\d:]{8}(?:[.,]\d+)?Z? ?(?:- )?"
        r"(?:(?P<level>ERROR|WARNING|INFO|DEBUG)(?: - [\w.]+ - |\s))?",
    )
)


@dataclass(frozen=True)
class ConsoleLine:
    """A line without its decoration."""

    source: str
    """The process that wrote it (`WorkerDict pid=20931`), innermost last; empty for the driver."""
    level: str
    """Logging level where the line names one."""
    text: str
    """The rest, indentation kept."""


def parse(line: str) -> ConsoleLine:
    """Takes one console line apart. A line drawn over with carriage returns keeps its last state."""
    text = line.rstrip("\r\n").rsplit("\r", 1)[-1][:_LONGEST]
    text = _REPEATED.sub("", _ANSI.sub("", text))
    sources: list[str] = []
    level = ""
    matched = True
    while matched:
        matched = False
        for prefix in _PREFIXES:
            match = prefix.match(text)
            if match is None or match.end() == 0:
                continue
            found = match.groupdict()
            if found.get("source"):
                sources.append(found["source"])
            level = found.get("level") or level
            text = text[match.end() :]
            matched = True
    return ConsoleLine(source=" ".join(sources), level=level, text=text.rstrip())
