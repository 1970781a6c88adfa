"""Our speed stage over a recorded landscape: the product's controller, ladder, studies, early end and store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from autotune.controller.climb import StageClimb
from autotune.controller.flight import Flight
from autotune.errors import NothingFeasibleError, StoppedError
from autotune.records import AttemptEnd, Event, Overrides, Verdict
from benchmarks.replay.launcher import EventClock, ReplayLauncher
from benchmarks.replay.stage import speed_job, speed_stage
from benchmarks.search.track import Track, events_of


class _Launcher(ReplayLauncher):
    """Books the device seconds of attempts as they end."""

    track: Track

    def poll(self) -> list[tuple[str, Event]]:
        due = super().poll()
        for _, event in due:
            if isinstance(event, AttemptEnd):
                self.track.book(event.at_s)
        return due


class _Tracked(StageClimb):
    """Notes what the stage would hand out after each told trial."""

    track: Track
    when_over: Callable[[], None]

    def tell(self, flight: Flight, verdict: Verdict) -> None:
        super().tell(flight, verdict)
        view = self.view_of(flight.number)
        if view.is_complete and view.objective is not None:
            self.track.measured(self.track.landscape.nearest(flight.candidate.params), view.objective)
        self.when_over()


def climb(track: Track, is_over: Callable[[Track], bool], seed: int, most_trials: int) -> str:
    """Climbs the speed stage with the product's defaults until `is_over`; returns how it ended."""
    landscape = track.landscape

    def script(overrides: Overrides) -> list[Event]:
        _, run, start_s = track.begin(overrides)
        return events_of(run, start_s)

    with tempfile.TemporaryDirectory() as name:
        job = speed_job(Path(name), steps=landscape.steps, trials=most_trials, seed=seed)
        launcher = _Launcher(EventClock(), script)
        launcher.track = track
        with speed_stage(job, landscape.space, launcher, _Tracked) as replay:
            tracked, controller = replay.climb, replay.controller
            assert isinstance(tracked, _Tracked)
            tracked.track = track
            tracked.when_over = lambda: controller.stop("enough") if is_over(track) else None
            try:
                controller.climb(tracked)
            except StoppedError:
                return "stopped by the benchmark"
            except NothingFeasibleError as error:
                return str(error)
            return "ended by itself"
