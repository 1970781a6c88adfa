"""Runs single trials through the launcher interface for searches that bring no controller of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autotune.records import AttemptEnd, Event, MetricRow, Overrides
from benchmarks.landscape.recording import WARMUP_STEPS, Configuration, Landscape
from benchmarks.replay.launcher import EventClock, ReplayLauncher
from benchmarks.search.track import Track, events_of, steady_speed


@dataclass(frozen=True)
class Told:
    """How a trial ended."""

    configuration: Configuration
    speed: float | None
    """Median of its steady steps so far; None where it has none."""
    is_complete: bool
    failed: bool


OnRow = Callable[[int, float], bool]
"""(step, speed so far) of a running trial to whether it goes on."""


class Search(Protocol):
    """A way to look for the fastest candidate; runs until `is_over` says so."""

    def __call__(self, driver: Driver, landscape: Landscape, seed: int) -> None:
        """Proposes and runs trials through `driver`."""
        ...


class Driver:
    """Starts, watches and ends one trial at a time; `is_over` bounds the whole search."""

    def __init__(self, track: Track, is_over: Callable[[Track], bool]) -> None:
        self.track = track
        self.clock = EventClock()
        self.launcher = ReplayLauncher(self.clock, self._script)
        self._is_over = is_over
        self._first_step = 0
        self._configuration = track.landscape.start

    @property
    def is_over(self) -> bool:
        """Whether the search has used what it may use, or shown what it was to show."""
        return self._is_over(self.track)

    def run(
        self,
        params: Overrides,
        on_row: OnRow = lambda step, speed: True,
        *,
        first_step: int = 0,
        keep: bool = True,
    ) -> Told:
        """Runs one trial to its end, or until `on_row` says no.

        Args:
            params: The candidate.
            on_row: Asked after each steady step.
            first_step: Steps that a paused trial has made already; it pays its start-up again.
            keep: Whether the search would hand out what it measured.
        """
        self._first_step = first_step
        attempt = f"trial {self.track.trials}"
        began_s = self.clock.now_s()
        self.launcher.play(attempt, params)
        speeds: list[float] = []
        asked, rows = False, first_step
        end: AttemptEnd | None = None
        while end is None:
            for _, event in self.launcher.poll():
                if isinstance(event, AttemptEnd):
                    end = event
                elif isinstance(event, MetricRow):
                    rows += 1
                    speeds.append(float(event.values["perf/throughput"] or 0.0))
                    speed = steady_speed(speeds if first_step == 0 else [0.0, *speeds])
                    if speed is not None and not asked and not on_row(rows, speed):
                        asked = True
                        self.launcher.end(attempt, "stopped by the search")
            if end is None:
                self.clock.sleep_s(0.25)
        self.track.book(self.clock.now_s() - began_s)
        speed = steady_speed(speeds if first_step == 0 else [0.0, *speeds])
        failed = end.exit_code != 0 and not end.asked
        if speed is not None and keep and not failed and not asked:
            self.track.measured(self._configuration, speed)
        return Told(self._configuration, speed, rows > WARMUP_STEPS and not failed and not asked, failed)

    def _script(self, params: Overrides) -> list[Event]:
        self._configuration, run, start_s = self.track.begin(params)
        return events_of(run, start_s, self._first_step)
