"""The two ways an attempt lives: in a verl process of its own, or as one candidate of a warm session.

The runner follows both in the same way: `begin`, `look` until it answers, `ended_with_process` where the
process is gone first.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from autotune.job.paths import AttemptPaths, write_atomic
from autotune.records import AttemptEnd
from autotune.trial.orphans import end_orphan
from autotune.trial.recorded import read_end
from autotune.trial.request import SessionPlace
from autotune.trial.running import RunningAttempt, read_running
from autotune.trial.supervisor import last_lines, write_end
from autotune.verl_plugin.warm import wire

COPY_BYTES = 2**20
"""Most of a session's console that is copied at a time."""


class Hosting(Protocol):
    """How one attempt lives."""

    @property
    def process(self) -> AttemptPaths:
        """The files of the process that it lives in."""
        ...

    def begin(self) -> RunningAttempt | None:
        """What is known once the process runs; None where it died before."""
        ...

    def look(self) -> AttemptEnd | None:
        """Its end, once it is recorded; called often."""
        ...

    def is_at_start(self) -> bool:
        """Whether a session has just brought everything back for this candidate; True once."""
        ...

    def ended_with_process(self) -> AttemptEnd:
        """Its end where the process is gone."""
        ...


class OwnProcess:
    """A cold attempt: it ends with its process."""

    def __init__(self, paths: AttemptPaths) -> None:
        self.process = paths

    def begin(self) -> RunningAttempt | None:
        """See `Hosting`."""
        return read_running(self.process.running)

    def look(self) -> AttemptEnd | None:
        """See `Hosting`."""
        return read_end(self.process)

    def is_at_start(self) -> bool:
        """See `Hosting`."""
        return False

    def ended_with_process(self) -> AttemptEnd:
        """See `Hosting`."""
        return end_orphan(self.process)


class SessionCandidate:
    """One candidate of a warm session. Its console log is the part that the session's grew meanwhile."""

    def __init__(self, place: SessionPlace, attempt: AttemptPaths) -> None:
        self.process = AttemptPaths(Path(place.folder))
        self._place = place
        self._attempt = attempt
        self._copied_bytes = _size(self.process.console)
        self._started_s = time.monotonic()
        self._state = ""
        self._was_at_start = False

    def begin(self) -> RunningAttempt | None:
        """Notes the session's processes as the attempt's, then hands it over."""
        session = read_running(self.process.running)
        if session is None:
            return None
        running = session
        if self._place.number > 0:
            now_unix_s = time.time()
            running = replace(
                session,
                started_utc=datetime.fromtimestamp(now_unix_s, timezone.utc).isoformat(),
                started_unix_s=now_unix_s,
                started_monotonic_s=time.monotonic(),
            )
        self._started_s = running.started_monotonic_s
        write_atomic(self._attempt.running, running.to_json())
        wire.hand_over(self.process.root, self._place.number, self._attempt.root)
        return running

    def look(self) -> AttemptEnd | None:
        """See `Hosting`."""
        mark = wire.read_mark(self._attempt.root)
        self._state = "" if mark is None else mark.state
        ended = mark is not None and mark.state in ("completed", "stopped")
        self._copy_console(to_its_end=ended)
        if mark is None or not ended:
            return None
        return self._record(
            AttemptEnd(at_s=time.monotonic() - self._started_s, exit_code=0, asked=mark.state == "stopped")
        )

    def is_at_start(self) -> bool:
        """See `Hosting`."""
        if self._was_at_start or self._state != "running":
            return False
        self._was_at_start = True
        return True

    def ended_with_process(self) -> AttemptEnd:
        """The session's end is the attempt's; a candidate that was not yet prepared has no part in it."""
        end = end_orphan(self.process)
        self._copy_console(to_its_end=True)
        mark = wire.read_mark(self._attempt.root)
        unprepared = self._place.number > 0 and (mark is None or mark.state == "preparing")
        return self._record(
            replace(
                end,
                at_s=time.monotonic() - self._started_s,
                lost=end.lost or (unprepared and not end.asked),
                session_over=True,
            )
        )

    def _record(self, end: AttemptEnd) -> AttemptEnd:
        end = replace(
            end,
            session=self._place.id,
            session_number=self._place.number,
            tail=last_lines(self._attempt.console),
        )
        write_end(self._attempt, end)
        return end

    def _copy_console(self, *, to_its_end: bool) -> None:
        while True:
            with open(self.process.console, "rb") as session, open(self._attempt.console, "ab") as own:
                session.seek(self._copied_bytes)
                data = session.read(COPY_BYTES)
                own.write(data)
            self._copied_bytes += len(data)
            if not (to_its_end and data):
                return


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
