"""What a stage maximises, and the graded constraints it teaches. Pure functions of a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.job.model import QualityStage, StageSection
from autotune.records import Figures, Outcome, StageName, Verdict

_REJECTED = 1.0
"""Constraint of a configuration that verl refuses: there is no measure of how wrong it is."""
_UNGRADED = 0.1
"""Constraint of a failure without a size (hang, NaN)."""
_BARELY_OVER_FRAC = 1.02
"""Least peak, as a share of the device, of what ran out of memory: that it did not fit is certain."""


def objective(stage: StageName, verdict: Verdict) -> float | None:
    """The value to maximise; None where the trial did not measure it.

    survive: share of the asked steps, plus the free share of the device once all are done.
    speed, finish: tokens/s/GPU, the median of the steady steps.
    quality: smoothed final reward, on validation data where the stage validates.
    """
    figures = verdict.figures
    if stage is StageName.SURVIVE:
        return survived(figures)
    if verdict.outcome is not Outcome.COMPLETED:
        return None
    return final_reward(figures) if stage is StageName.QUALITY else figures.tokens_per_s_per_gpu


def final_reward(figures: Figures) -> float | None:
    """What stage quality compares: the validation reward where there is one, else the training reward."""
    return figures.reward if figures.validation_reward is None else figures.validation_reward


def survived(figures: Figures) -> float:
    """Share of the asked steps in 0..1, plus memory head-room in 0..1 when all were done."""
    share = figures.steps / figures.steps_asked if figures.steps_asked else 0.0
    if share < 1.0 or figures.peak_memory_frac is None:
        return min(share, 1.0)
    return 1.0 + max(1.0 - figures.peak_memory_frac, 0.0)


def intermediate(stage: StageName, values: Mapping[str, float | None], step: int, steps: int) -> float | None:
    """What one step's metric row reports to the study's curve; None where the row lacks it."""
    if stage is StageName.SURVIVE:
        return step / steps
    return values.get("critic/rewards/mean" if stage is StageName.QUALITY else "perf/throughput")


def constraints(
    stage: StageName,
    section: StageSection,
    verdict: Verdict,
    *,
    expected_frac: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Named constraints, feasible when <= 0, graded by how far the trial is from the limit.

    `memory_<phase>` is the phase's peak over the stage's limit, less one, whether it was measured or,
    where nothing could be measured, is expected.

    Args:
        stage: The stage.
        section: Its limits.
        verdict: The judge's word.
        expected_frac: Unclipped peaks that the forecast expects, by phase, as shares of the device.
    """
    limit = section.peak_memory_frac
    peaks = {**verdict.figures.peak_by_phase_frac, **_expected_peaks(verdict, expected_frac or {})}
    found = {f"memory_{phase}": peak / limit - 1.0 for phase, peak in peaks.items()}
    failure = verdict.failure
    if failure is not None and not _is_oom(verdict):
        if verdict.outcome is Outcome.FAILED:
            found[failure.kind] = _UNGRADED
        elif verdict.outcome is Outcome.REJECTED:
            found[failure.kind] = _REJECTED
    if stage is StageName.QUALITY and isinstance(section, QualityStage) and verdict.figures.kl is not None:
        low, high = section.kl_band
        found["kl_over_band"] = verdict.figures.kl / high - 1.0
        if low > 0.0:
            found["kl_under_band"] = 1.0 - verdict.figures.kl / low
    return found


def _is_oom(verdict: Verdict) -> bool:
    """Ran out of memory, or was rejected because it would have."""
    known = verdict.outcome in (Outcome.FAILED, Outcome.REJECTED)
    return known and verdict.failure is not None and verdict.failure.kind.startswith("oom_")


def _expected_peaks(verdict: Verdict, expected_frac: Mapping[str, float]) -> dict[str, float]:
    """What stands for peaks that nobody measured: of the phase that ran out, or of a trial never launched."""
    failure = verdict.failure
    if failure is None or not _is_oom(verdict):
        return {}
    over = max(expected_frac.get(failure.phase, 0.0), _BARELY_OVER_FRAC)
    others = expected_frac if verdict.outcome is Outcome.REJECTED else {}
    return {**others, failure.phase: over}
