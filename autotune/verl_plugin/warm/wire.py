"""How a session is given candidates and says what became of them: small files, written whole.

The runner writes `inbox/000001.json` into the session's folder, naming the attempt's folder; the session
writes `session.json` into that folder as it goes, and looks for `stop` there between two steps. Standard
library only: both sides import it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

SESSION_FOLDER = "AUTOTUNE_SESSION_FOLDER"
"""Environment variable of a session's process: where its inbox is."""
CONFIG_FILE = "config.yaml"
METRICS_FILE = "metrics.jsonl"
PHASES_FILE = "phases.jsonl"
RANK_LOAD_FILE = "rank_load.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


@dataclass(frozen=True)
class SessionMark:
    """Where a candidate stands in its session."""

    state: Literal["preparing", "running", "completed", "stopped"]
    prepared_s: float = 0.0
    """From the hand-over until its first step could begin."""


def mark_path(attempt: Path) -> Path:
    """The file of an attempt's `SessionMark`."""
    return attempt / "session.json"


def write_mark(attempt: Path, mark: SessionMark) -> None:
    """Says where the candidate stands, whole or not at all."""
    _write(mark_path(attempt), json.dumps(asdict(mark)))


def read_mark(attempt: Path) -> SessionMark | None:
    """Where the candidate stands; None before the session has seen it."""
    try:
        return SessionMark(**json.loads(mark_path(attempt).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None


def hand_over(session: Path, number: int, attempt: Path) -> None:
    """Puts the session's `number`-th candidate, from 0, into its inbox."""
    inbox = session / "inbox"
    inbox.mkdir(parents=True, exist_ok=True)
    _write(_message(session, number), json.dumps({"folder": str(attempt)}))


def handed_over(session: Path, number: int) -> Path | None:
    """The attempt's folder of the `number`-th candidate; None before there is one."""
    try:
        message = json.loads(_message(session, number).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Path(message["folder"])


def ask_to_stop(attempt: Path) -> None:
    """Asks for the end of this candidate at its next step; the session goes on."""
    with suppress(OSError):
        (attempt / "stop").touch()


def is_asked_to_stop(attempt: Path) -> bool:
    """Whether this candidate is to end before its next step."""
    return (attempt / "stop").exists()


def _message(session: Path, number: int) -> Path:
    return session / "inbox" / f"{number:06d}.json"


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
