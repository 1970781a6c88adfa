"""Peak memory by phase of the configurations that have a name, against the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.judge.phases import PHASES
from autotune.records import StageName
from autotune.report.findings.stages import BEST, FASTEST, OWN, SURVIVOR, ClimbedStage, figures_of, name_of
from autotune.store.stored import StoredTrial

ForecastOf = Callable[[int], Mapping[str, float]]
"""Forecast peaks of a trial by its id: phase to fraction of the device; empty where there is none."""


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """One configuration's peaks, in fractions of the device."""

    name: str
    trial: str
    by_phase_frac: Mapping[str, float]
    """Measured, in the run's order."""
    forecast_frac: Mapping[str, float] = field(default_factory=dict)
    """Forecast before it ran; empty where the database has none."""
    peak_frac: float | None
    peak_gb: float | None
    peak_phase: str
    failure: str
    """Failure kind; empty where it ran."""

    @property
    def capacity_gb(self) -> float | None:
        """Size of the device; None where no peak was measured."""
        if not self.peak_frac or self.peak_gb is None:
            return None
        return self.peak_gb / self.peak_frac


@dataclass(frozen=True, kw_only=True)
class MemoryFinding:
    """Memory of the named configurations."""

    limit_frac: float
    """Largest accepted share of the device."""
    uses: tuple[MemoryUse, ...]
    """The user's own first, the exported one last."""

    @property
    def phases(self) -> tuple[str, ...]:
        """Every phase that one of them measured or forecast, in the run's order."""
        seen = {phase for use in self.uses for phase in (*use.by_phase_frac, *use.forecast_frac)}
        known = [phase for phase in PHASES if phase in seen]
        return (*known, *sorted(seen.difference(known)))

    @property
    def headroom_frac(self) -> float | None:
        """What the exported configuration leaves below the limit; negative where it is over."""
        if not self.uses or self.uses[-1].peak_frac is None:
            return None
        return self.limit_frac - self.uses[-1].peak_frac


def memory_finding(stages: Sequence[ClimbedStage], forecast_of: ForecastOf) -> MemoryFinding | None:
    """Peaks of the user's configuration, the survivor, the fastest and the best; None before any.

    `forecast_of` is asked for the forecast peaks of those trials.
    """
    by_stage = {stage.stage: stage for stage in stages}
    survive = by_stage.get(StageName.SURVIVE)
    named: list[tuple[str, StoredTrial | None]] = [(OWN, survive.start if survive else None)]
    for stage, name in (
        (StageName.SURVIVE, SURVIVOR),
        (StageName.SPEED, FASTEST),
        (StageName.QUALITY, BEST),
    ):
        climbed = by_stage.get(stage)
        named.append((name, climbed.best if climbed else None))
    uses: dict[int, MemoryUse] = {}
    for name, trial in named:
        if trial is not None and trial.id not in uses:
            uses[trial.id] = _use(name, trial, forecast_of(trial.id))
    measured = tuple(use for use in uses.values() if use.by_phase_frac or use.forecast_frac)
    if not measured:
        return None
    return MemoryFinding(limit_frac=stages[0].section.peak_memory_frac, uses=measured)


def _use(name: str, trial: StoredTrial, forecast_frac: Mapping[str, float]) -> MemoryUse:
    figures = figures_of(trial)
    failure = trial.verdict.failure if trial.verdict else None
    order = {phase: index for index, phase in enumerate(PHASES)}
    peaks = sorted(figures.peak_by_phase_frac.items(), key=lambda peak: order.get(peak[0], len(order)))
    return MemoryUse(
        name=name,
        trial=name_of(trial),
        by_phase_frac=dict(peaks),
        forecast_frac=dict(forecast_frac),
        peak_frac=figures.peak_memory_frac,
        peak_gb=figures.peak_memory_gb,
        peak_phase=figures.peak_memory_phase,
        failure=failure.kind if failure else "",
    )
