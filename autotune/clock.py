"""The only file that reads the time, so that tests can turn it by hand."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """What the controller and the runner need of time."""

    def now_s(self) -> float:
        """Monotonic seconds; only differences mean something."""
        ...

    def utc_now(self) -> datetime:
        """Time of day, timezone-aware, UTC."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Blocks for `seconds`."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        """Monotonic seconds of this machine."""
        return time.monotonic()

    def utc_now(self) -> datetime:
        """Time of day in UTC."""
        return datetime.now(timezone.utc)

    def sleep_s(self, seconds: float) -> None:
        """Blocks the calling thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told to move; `sleep_s` moves it."""

    def __init__(self, start_utc: datetime | None = None) -> None:
        self._now_s = 0.0
        self._start_utc = start_utc or datetime(2026, 1, 1, tzinfo=timezone.utc)

    def now_s(self) -> float:
        """Seconds since the clock was made."""
        return self._now_s

    def utc_now(self) -> datetime:
        """Start time plus the seconds passed."""
        return datetime.fromtimestamp(self._start_utc.timestamp() + self._now_s, timezone.utc)

    def sleep_s(self, seconds: float) -> None:
        """Moves the clock instead of waiting."""
        self.advance_s(seconds)

    def advance_s(self, seconds: float) -> None:
        """Moves the clock forward."""
        self._now_s += seconds
