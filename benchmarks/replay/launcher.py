"""A launcher that plays events instead of starting verl, and the clock that it plays them by."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.clock import ManualClock
from autotune.job.model import StageSection
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd, AttemptRole, Event, Overrides
from autotune.trial.request import AttemptRequest

Script = Callable[[Overrides], Sequence[Event]]
"""A candidate's overrides to what its run reports, in time order, its end last."""


class EventClock(ManualClock):
    """Jumps to the next event of a launcher where a real clock would wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.next_event_s: Callable[[], float | None] = lambda: None

    def sleep_s(self, seconds: float) -> None:
        """At least `seconds`; until the next event where there is one to come."""
        next_s = self.next_event_s()
        until_s = self.now_s() + seconds if next_s is None else max(next_s, self.now_s())
        self.advance_s(until_s - self.now_s())


@dataclass
class _Playing:
    began_s: float
    events: list[Event]


@dataclass
class ReplayLauncher:
    """See `autotune.trial.launcher.Launcher`; attempts take no processes and no real time."""

    clock: ManualClock
    script: Script
    limit: int = 1
    launched: int = 0
    _playing: dict[str, _Playing] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.clock, EventClock):
            self.clock.next_event_s = self.next_event_s

    def slots(self, gpus: int = 1) -> int:
        """Attempts that could be started now, whatever their size."""
        return self.limit - len(self._playing)

    def largest(self) -> int:
        """A replayed attempt holds no devices, so it may have any size."""
        return 1 << 16

    def warm_keys(self) -> frozenset[str]:
        """None: what a session would save, the script says."""
        return frozenset()

    def start(self, request: AttemptRequest) -> None:
        """Asks the script what the candidate does, and begins to play it."""
        self.play(request.attempt_id, json.loads(request.config_text))

    def play(self, attempt_id: str, overrides: Overrides) -> None:
        """The same without a request."""
        self.launched += 1
        self._playing[attempt_id] = _Playing(self.clock.now_s(), list(self.script(overrides))[::-1])

    def poll(self) -> list[tuple[str, Event]]:
        """The events that are due."""
        due: list[tuple[str, Event]] = []
        for attempt_id, playing in list(self._playing.items()):
            age_s = self.clock.now_s() - playing.began_s
            while playing.events and playing.events[-1].at_s <= age_s + 1e-9:
                event = playing.events.pop()
                due.append((attempt_id, event))
                if isinstance(event, AttemptEnd):
                    del self._playing[attempt_id]
        return due

    def end(self, attempt_id: str, reason: str, spare_s: float | None = None) -> None:
        """Ends an attempt at once."""
        playing = self._playing.get(attempt_id)
        if playing is not None:
            at_s = self.clock.now_s() - playing.began_s
            playing.events = [AttemptEnd(at_s=at_s, exit_code=1, asked=True)]

    def next_event_s(self) -> float | None:
        """When the next event is due, by the clock; None where nothing plays."""
        due = [
            playing.began_s + playing.events[-1].at_s for playing in self._playing.values() if playing.events
        ]
        return min(due, default=None)

    def close(self) -> None:
        """Forgets what plays."""
        self._playing.clear()


class PlainPreparer:
    """Stands where verl's configuration is resolved: a replayed candidate is known by its overrides alone."""

    def request(
        self,
        section: StageSection,
        overrides: Overrides,
        role: AttemptRole,
        paths: AttemptPaths,
        attempt_id: str,
    ) -> AttemptRequest:
        """A request that `ReplayLauncher` reads."""
        return AttemptRequest(
            attempt_id=attempt_id,
            folder=str(paths.root),
            working_directory=str(Path.cwd()),
            python="python",
            config_text=json.dumps(dict(overrides)),
            device="cpu",
        )

    def settings(
        self, section: StageSection, overrides: Overrides, role: AttemptRole, paths: AttemptPaths
    ) -> Overrides:
        """The candidate's own: a replay is mirrored nowhere."""
        return overrides

    def resolve(self, overrides: Overrides) -> Any:
        """What has a `flat` configuration."""
        return _Plain(dict(overrides))


@dataclass(frozen=True)
class _Plain:
    flat: dict[str, Any]
