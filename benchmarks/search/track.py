"""What a search did, in GPU seconds: its trials by the recording, its best guess over time, its score."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.records import AttemptEnd, Event, LogEvidence, MemorySample, MetricRow, Overrides, PhaseMark
from benchmarks.landscape.recording import WARMUP_STEPS, Configuration, Landscape, Run, Start, engine_of

CLOSE_FRAC = 0.95
"""Within 5 % of the best."""


@dataclass
class LaunchCost:
    """Seconds from a launch to its first step, as the landscape's runs have them. One slot holds one session."""

    landscape: Landscape
    warm: bool = False
    """Whether candidates of one cold key share a session. If not, every trial starts cold."""
    _open: str | None = None
    _engine: object = None

    def start_s(self, configuration: Configuration, run: Run) -> float:
        """What this run pays, sessions and engines opened and lost by it included."""
        if not self.warm:
            return self.landscape.start_s(Start.COLD)
        engine, start = engine_of(configuration.params), Start.COLD
        if self._open == run.cold_key:
            start = Start.WARM if self._engine == engine else Start.ENGINE
        # A session is retired after a failure: its next candidate would not be believed.
        self._open, self._engine = (run.cold_key, engine) if run.is_complete else (None, None)
        return self.landscape.start_s(start)


@dataclass
class Track:
    """One search with one seed; made by its launcher, read by the table."""

    landscape: Landscape
    chance: random.Random
    cost: LaunchCost
    target: float = 0.0
    trials: int = 0
    exact: int = 0
    """Trials whose very candidate was recorded."""
    spent_s: float = 0.0
    found: list[tuple[float, float]] = field(default_factory=list)
    """(GPU seconds, true speed of what the search would hand out), each time that changes."""
    _best: float = float("-inf")

    def __post_init__(self) -> None:
        self.target = CLOSE_FRAC * self.landscape.best

    def begin(self, params: Overrides) -> tuple[Configuration, Run, float]:
        """The recorded candidate that a launch becomes, one of its runs, and its start-up seconds."""
        self.trials += 1
        self.exact += self.landscape.holds(params)
        configuration = self.landscape.nearest(params)
        run = self.chance.choice(configuration.runs)
        return configuration, run, self.cost.start_s(configuration, run)

    def book(self, seconds: float) -> None:
        """GPU seconds of an attempt that ended."""
        self.spent_s += seconds

    def measured(self, configuration: Configuration, tokens_per_s: float) -> None:
        """The search holds a figure of this candidate; the largest one is what it would hand out."""
        if tokens_per_s > self._best:
            self._best = tokens_per_s
            self.found.append((self.spent_s, configuration.tokens_per_s or 0.0))

    @property
    def reached_s(self) -> float:
        """GPU seconds until what it would hand out was within 5 % of the best; infinite where it never was."""
        return next((at_s for at_s, speed in self.found if speed >= self.target), float("inf"))

    def speed_at(self, at_s: float) -> float:
        """True speed of its best guess after so many GPU seconds; the job's own before the first."""
        speed = self.landscape.start.tokens_per_s or 0.0
        for moment_s, value in self.found:
            if moment_s > at_s:
                break
            speed = value
        return speed


def events_of(run: Run, start_s: float, first_step: int = 0) -> list[Event]:
    """The run as a launcher reports it, from `first_step` on where it goes on from a checkpoint."""
    at_s = start_s
    events: list[Event] = [PhaseMark(phase="model_load", at_s=min(1.0, start_s))]
    for phase, used_gb in run.peak_gb.items():
        events.append(
            MemorySample(at_s=start_s, phase=phase, device="rank:0", used_gb=used_gb, capacity_gb=0.0)
        )
    events.append(PhaseMark(phase="rollout", at_s=start_s))
    for step in range(first_step, len(run.step_s)):
        at_s += run.step_s[step]
        events.append(MetricRow(step=step + 1, at_s=at_s, values=_values(run, step)))
    if not run.is_complete:
        kind, phase = run.kind or "unknown", run.phase or "rollout"
        line = LogEvidence(
            line_number=1, text=f"recorded: {kind}", kind=kind, phase=phase, level=4, at_s=at_s
        )
        events.append(line)
    return [*events, AttemptEnd(at_s=at_s, exit_code=0 if run.is_complete else 1, asked=False)]


def _values(run: Run, step: int) -> dict[str, float | None]:
    values: dict[str, float | None] = {
        "perf/throughput": run.throughputs[step],
        "perf/time_per_step": run.step_s[step],
        "timing_s/step": run.step_s[step],
    }
    if step < len(run.reward):
        values["critic/rewards/mean"] = run.reward[step]
    if step < len(run.kl):
        values["actor/kl_loss"] = run.kl[step]
    return values


def steady_speed(throughputs: Sequence[float]) -> float | None:
    """Median over the steps after the warm-up; None before there is one."""
    steady = throughputs[WARMUP_STEPS:]
    return statistics.median(steady) if steady else None


def score(tracks: Sequence[Track], baseline: Sequence[Track], until_s: float, points: int = 50) -> float:
    """Mean over time of the way made from random search's curve to the optimum: 0 as random, 1 at once.

    The aggregate performance of Willemsen et al., A methodology for comparing optimization algorithms for
    auto-tuning (Future Generation Computer Systems 159, 2024), with `points` equidistant moments up to
    the time at which the baseline is close to the best.
    """
    best = baseline[0].landscape.best
    shares = []
    for point in range(1, points + 1):
        at_s = until_s * point / points
        own = statistics.fmean(track.speed_at(at_s) for track in tracks)
        random_s = statistics.fmean(track.speed_at(at_s) for track in baseline)
        if best - random_s > 1e-9 * best:
            shares.append((own - random_s) / (best - random_s))
    return statistics.fmean(shares) if shares else 0.0
