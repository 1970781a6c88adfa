"""`running.json`: what is known of an attempt from its launch on, for whoever has to end it later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.trial.process_tree import ProcessKey


@dataclass(frozen=True, kw_only=True)
class RunningAttempt:
    """One launch of verl on one machine."""

    attempt_id: str
    boot_id: str
    """Of the machine, see `process_tree.boot_id`."""
    supervisor: ProcessKey
    verl: ProcessKey | None
    """None where verl could not be started."""
    started_utc: str
    """ISO 8601."""
    started_unix_s: float
    started_monotonic_s: float
    """`time.monotonic()`, the same for all processes of a machine: zero of `at_s`."""
    temp_dir: str
    """The attempt's private temporary folder."""

    def to_json(self) -> str:
        """JSON that `read_running` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read_running(path: Path) -> RunningAttempt | None:
    """What the supervisor wrote at launch; None before that."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    values["supervisor"] = ProcessKey(**values["supervisor"])
    if values["verl"] is not None:
        values["verl"] = ProcessKey(**values["verl"])
    return RunningAttempt(**values)
