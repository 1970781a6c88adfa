"""The product's controller over replayed trials: every event is stored, every trial proposed, judged and told."""

from __future__ import annotations

import math
import random
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.controller.climb import StageClimb
from autotune.controller.flight import Flight
from autotune.job.resolved_space import ResolvedParameter, ResolvedSpace
from autotune.records import AttemptEnd, Candidate, Event, MemorySample, MetricRow, Overrides, PhaseMark
from benchmarks.replay.launcher import EventClock, ReplayLauncher
from benchmarks.replay.stage import speed_job, speed_stage

METRICS = 60
"""Numbers in one of verl 0.9.1's metric rows (GRPO with KL loss: 58 to 64)."""
_PHASES = ("rollout", "reward", "old_log_prob", "ref_log_prob", "update_actor", "weight_sync")


def space() -> ResolvedSpace:
    """Seven knobs with far more points than any run tries."""
    sizes = [
        ResolvedParameter(key=f"actor.size_{n}", kind="int", low=1, high=4096, log=True, current=64)
        for n in range(3)
    ]
    shares = [
        ResolvedParameter(key=f"rollout.share_{n}", kind="float", low=0.1, high=0.9, current=0.5)
        for n in range(2)
    ]
    flags = [
        ResolvedParameter(key=f"fsdp.flag_{n}", kind="categorical", choices=(False, True), current=False)
        for n in range(2)
    ]
    return ResolvedSpace(name="overhead", parameters=(*sizes, *shares, *flags), facts={})


def speed_of(params: Overrides, chance: random.Random) -> float:
    """tokens/s of a made-up machine: something to search for; what it is does not matter here."""
    speed = 1000.0
    for key, value in params.items():
        if "size" in key:
            speed += 50.0 * math.log2(float(value))  # type: ignore[arg-type]
        elif "share" in key:
            speed -= 400.0 * abs(float(value) - 0.7)  # type: ignore[arg-type]
        else:
            speed += 60.0 * bool(value)
    return speed * chance.gauss(1.0, 0.01)


def script(rows: int, chance: random.Random) -> Any:
    """What one run reports: as much as a real one does."""

    def events_of(params: Overrides) -> Sequence[Event]:
        events: list[Event] = [PhaseMark(phase="model_load", at_s=0.1)]
        for step in range(1, rows + 1):
            begin_s = float(step)
            events += [
                PhaseMark(phase=phase, at_s=begin_s + 0.1 * place) for place, phase in enumerate(_PHASES)
            ]
            events.append(
                MemorySample(
                    at_s=begin_s + 0.7, phase="update_actor", device="rank:0", used_gb=0.5, capacity_gb=1.0
                )
            )
            values: dict[str, float | None] = {f"timing/{n}": chance.random() for n in range(METRICS - 3)}
            values |= {"perf/throughput": speed_of(params, chance), "perf/time_per_step": 1.0}
            values["critic/rewards/mean"] = 0.5
            events.append(MetricRow(step=step, at_s=begin_s + 0.9, values=values))
        return [*events, AttemptEnd(at_s=rows + 1.0, exit_code=0, asked=False)]

    return events_of


class _Launcher(ReplayLauncher):
    """Counts its own time, which is none of the controller's."""

    own_s = 0.0

    def start(self, request: Any) -> None:
        began_s = time.process_time()
        super().start(request)
        self.own_s += time.process_time() - began_s

    def poll(self) -> list[tuple[str, Event]]:
        began_s = time.process_time()
        try:
            return super().poll()
        finally:
            self.own_s += time.process_time() - began_s


class _Timed(StageClimb):
    """Notes when each trial is told, and the time of what running attempts report and of the sampler."""

    rows = 0
    observe_s = 0.0
    sampled_s = 0.0
    told_at: list[tuple[float, float]]

    def observe(self, flight: Flight, events: Sequence[Event]) -> None:
        began_s = time.process_time()
        super().observe(flight, events)
        self.observe_s += time.process_time() - began_s
        self.rows += sum(isinstance(event, MetricRow) for event in events)

    def sampled(self) -> Candidate | None:
        began_s = time.process_time()
        try:
            return super().sampled()
        finally:
            self.sampled_s += time.process_time() - began_s

    def start(self, candidate: Candidate) -> bool:
        self.told_at.append((time.process_time(), self.observe_s))
        return super().start(candidate)


def measure(trials: int, rows: int, folder: Path) -> dict[str, float]:
    """Climbs a stage of so many trials; returns milliseconds, megabytes, and the growth between its ends."""
    chance = random.Random(1)
    launcher = _Launcher(EventClock(), script(rows, chance))
    job = speed_job(folder, steps=rows, trials=trials, patience=None, end_early=False)
    before_mb = _peak_mb()
    with speed_stage(job, space(), launcher, _Timed) as replay:
        climb = replay.climb
        assert isinstance(climb, _Timed)
        climb.told_at = []
        began_s, wall_s = time.process_time(), time.perf_counter()
        replay.controller.climb(climb)
        whole_s = time.process_time() - began_s - launcher.own_s
        wall_s = time.perf_counter() - wall_s
        size_mb = sum(path.stat().st_size for path in replay.database.parent.glob("*.db*")) / 1e6
    tenth = max(trials // 10, 10)
    return {
        "trials": trials,
        "rows": climb.rows,
        "ms_per_trial": 1e3 * (whole_s - climb.observe_s) / trials,
        "sampler_ms": 1e3 * climb.sampled_s / trials,
        "ms_per_row": 1e3 * climb.observe_s / climb.rows,
        # The first ones change one knob at a time; growth is what the sampled ones show.
        "early_ms": _window_ms(climb.told_at[tenth : 2 * tenth]),
        "late_ms": _window_ms(climb.told_at[-tenth:]),
        "wall_ms": 1e3 * wall_s / trials,
        "memory_mb": _peak_mb() - before_mb,
        "database_mb": size_mb,
    }


def _window_ms(moments: Sequence[tuple[float, float]]) -> float:
    """Milliseconds of one trial within a stretch of the run, replaying included, metric rows left out."""
    (first_s, first_rows_s), (last_s, last_rows_s) = moments[0], moments[-1]
    return 1e3 * (last_s - first_s - (last_rows_s - first_rows_s)) / max(len(moments) - 1, 1)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
