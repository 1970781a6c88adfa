"""The ladder: what each stage started from, what it reached, and what it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.records import Figures, StageName
from autotune.report.findings.intervals import ratio_interval
from autotune.report.findings.stages import (
    NAMES_AFTER,
    NAMES_BEFORE,
    ClimbedStage,
    figures_of,
    name_of,
)

MEASURES = {StageName.SURVIVE: "peak memory", StageName.SPEED: "tokens/s/GPU", StageName.QUALITY: "reward"}


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One stage's step, measured within the stage: runs of two stages differ in length and data."""

    stage: StageName
    measure: str
    """What the stage improves: peak memory (a fraction of the device), tokens/s/GPU or reward."""
    state: str
    """`waiting`, `open` or `ended`."""
    before_name: str
    before_trial: str
    before: float | None
    before_failure: str
    """Failure kind of what the stage started from; empty where it ran."""
    after_name: str
    after_trial: str
    after: float | None
    is_same: bool
    """Whether the stage's best is what it started from: nothing better was found."""
    wanted: float | None
    """Limit of survive, goal of the others, in the measure's unit; None where there is nothing to compare."""
    wanted_gain: float | None
    gain: float | None
    """after/before; None for survive, where both are one configuration, and where before is not above 0."""
    gain_low: float | None
    """Lower end of the gain's 95 % interval from the stage's own noise; None where that is not known.
    The best of many trials was chosen for its figure, which no such interval accounts for."""
    gain_high: float | None
    acceptance_met: bool | None
    statement: str


def rungs(stages: Sequence[ClimbedStage]) -> tuple[Rung, ...]:
    """One rung a stage, in climbing order."""
    return tuple(_rung(stage) for stage in stages)


def _rung(climbed: ClimbedStage) -> Rung:
    stage, start = climbed.stage, climbed.start
    first = climbed.baseline.figures if climbed.baseline else figures_of(start)
    before, after = _measured(stage, first), _measured(stage, figures_of(climbed.best))
    failure = start.verdict.failure if start and start.verdict else None
    wanted_gain = getattr(climbed.section, "wanted_gain", None)
    same = climbed.best is not None and climbed.best.id in {trial.id for trial in climbed.starts}
    gain = None if stage is StageName.SURVIVE or same else _ratio(before, after)
    low, high = _interval(climbed, gain)
    return Rung(
        stage=stage,
        measure=MEASURES[stage],
        state=climbed.state,
        before_name=NAMES_BEFORE[stage],
        before_trial=name_of(start),
        before=before,
        before_failure=failure.kind if failure else "",
        after_name=NAMES_AFTER[stage],
        after_trial=name_of(climbed.best),
        after=after,
        is_same=same,
        wanted=_wanted(climbed, before, wanted_gain),
        wanted_gain=wanted_gain,
        gain=gain,
        gain_low=low,
        gain_high=high,
        acceptance_met=climbed.acceptance_met,
        statement=climbed.statement,
    )


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before if before is not None and before > 0 and after is not None else None


def _interval(climbed: ClimbedStage, gain: float | None) -> tuple[float | None, float | None]:
    if gain is None or climbed.baseline is None or climbed.baseline.throughput_noise_frac <= 0.0:
        return None, None
    return ratio_interval(gain, climbed.baseline.throughput_noise_frac, climbed.baseline.repeats)


def _measured(stage: StageName, figures: Figures) -> float | None:
    if stage is StageName.SURVIVE:
        return figures.peak_memory_frac
    return figures.tokens_per_s_per_gpu if stage is StageName.SPEED else figures.reward


def _wanted(climbed: ClimbedStage, before: float | None, gain: float | None) -> float | None:
    if climbed.stage is StageName.SURVIVE:
        return climbed.section.peak_memory_frac
    if before is None or gain is None:
        return None
    # As ladder.acceptance counts it: a reward of zero or below has no ratio.
    return before + (gain - 1.0) * abs(before)
