"""The books of a job: device time by stage and outcome, what was saved, when it pays back. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.records import Figures, Outcome, StageName, StageResult, Verdict


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """Device time of one stage's trials that ended alike."""

    stage: StageName
    outcome: str
    """A value of `Outcome`, or `running`."""
    trials: int
    gpu_s: float


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Where the device time of a job went, and what was not spent. On CPU a slot counts as a device."""

    entries: tuple[LedgerEntry, ...]
    saved_by_early_end_gpu_s: float
    """Steps that trials ended early did not make, at their own step time."""
    saved_by_rejection_gpu_s: float
    """Refused before launch: each at the median cost of this job's failed trials, 0 while there is none."""
    saved_by_warmth_gpu_s: float = 0.0
    """Cold starts that a warm session made unnecessary; 0 where every trial starts cold."""

    @property
    def gpu_s(self) -> float:
        """Device time of all trials."""
        return sum(entry.gpu_s for entry in self.entries)


@dataclass(frozen=True, kw_only=True)
class PayBack:
    """What tuning cost against what its result saves."""

    cost_gpu_s: float
    saved_gpu_s_per_100_steps: float
    """At the baseline's work per step; negative where the result is slower."""
    steps_to_pay_back: float | None
    """None where it never does, and where the gain may be noise."""
    noise_frac: float | None = None
    """What runs of one configuration may differ by in tokens/s/GPU, where the gain is no larger than that:
    nothing counts as saved then. None where it is larger, or where there is no gain at all."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One trial in the books."""

    stage: StageName
    verdict: Verdict | None
    """None while it runs."""
    gpu_s: float
    """Devices held times seconds held, over all its attempts."""
    devices: int = 1
    """The most that one of its attempts held."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What one attempt took until its first step."""

    start_s: float
    is_warm: bool
    """A session that others had used was there."""
    devices: int = 1


def ledger(costs: Iterable[Cost], starts: Iterable[Start] = ()) -> Ledger:
    """The books over all trials of a job; entries in climbing order, then by outcome.

    Args:
        costs: Every trial.
        starts: Every attempt that came to its first step.
    """
    kept = list(costs)
    sums: dict[tuple[StageName, str], tuple[int, float]] = {}
    for cost in kept:
        place = (cost.stage, cost.verdict.outcome.value if cost.verdict else "running")
        trials, gpu_s = sums.get(place, (0, 0.0))
        sums[place] = (trials + 1, gpu_s + cost.gpu_s)
    outcomes = [*(outcome.value for outcome in Outcome), "running"]
    stages = list(StageName)
    return Ledger(
        entries=tuple(
            LedgerEntry(stage=place[0], outcome=place[1], trials=sums[place][0], gpu_s=sums[place][1])
            for place in sorted(sums, key=lambda p: (stages.index(p[0]), outcomes.index(p[1])))
        ),
        saved_by_early_end_gpu_s=sum(map(_not_made_gpu_s, kept)),
        saved_by_rejection_gpu_s=_refused_gpu_s(kept),
        saved_by_warmth_gpu_s=_warm_gpu_s(list(starts)),
    )


def _warm_gpu_s(starts: list[Start]) -> float:
    """What warm starts took less than this job's cold ones did, at their median."""
    cold_s = [start.start_s for start in starts if not start.is_warm]
    if not cold_s:
        return 0.0
    usual_s = statistics.median(cold_s)
    return sum(max(usual_s - start.start_s, 0.0) * start.devices for start in starts if start.is_warm)


def _not_made_gpu_s(cost: Cost) -> float:
    """Device time of the steps that an early end left out; 0 for every other outcome."""
    if cost.verdict is None or cost.verdict.outcome is not Outcome.ENDED_EARLY:
        return 0.0
    figures = cost.verdict.figures
    left = max(figures.steps_asked - figures.steps, 0)
    step_s = figures.step_s
    if step_s is None and figures.steps:
        step_s = max(cost.gpu_s / cost.devices - (figures.start_s or 0.0), 0.0) / figures.steps
    return left * (step_s or 0.0) * cost.devices


def _refused_gpu_s(costs: list[Cost]) -> float:
    """What the refused ones would have cost: as much as a trial of this job that failed in the air."""
    outcomes = [cost.verdict.outcome for cost in costs if cost.verdict]
    failed = [c.gpu_s for c in costs if c.verdict and c.verdict.outcome is Outcome.FAILED and c.gpu_s > 0.0]
    return outcomes.count(Outcome.REJECTED) * (statistics.median(failed) if failed else 0.0)


def pay_back(
    books: Ledger,
    results: Mapping[StageName, StageResult],
    gpus: int,
    *,
    least_gain_frac: float = 0.0,
    through: StageName = StageName.SPEED,
) -> PayBack | None:
    """What tuning cost against what the result saves in each step.

    A step of the tuned run does the work of a step of the baseline (equal tokens), so it takes the
    baseline's step time divided by the gain in tokens/s/GPU.

    Args:
        books: The job's ledger.
        results: The stages that ended.
        gpus: Devices of one run.
        least_gain_frac: A gain in tokens/s/GPU up to this may be noise.
        through: The stage whose baseline and best are compared.

    Returns:
        None before that stage has ended, or where it measured no step time.
    """
    result = results.get(through)
    gain = _gain(result.baseline, result.best_figures) if result else None
    step_s = result.baseline.step_s if result and result.baseline else None
    if gain is None or step_s is None:
        return None
    if 1.0 < gain <= 1.0 + least_gain_frac:
        return PayBack(
            cost_gpu_s=books.gpu_s,
            saved_gpu_s_per_100_steps=0.0,
            steps_to_pay_back=None,
            noise_frac=least_gain_frac,
        )
    saved_s = step_s * gpus * (1.0 - 1.0 / gain)
    return PayBack(
        cost_gpu_s=books.gpu_s,
        saved_gpu_s_per_100_steps=100.0 * saved_s,
        steps_to_pay_back=books.gpu_s / saved_s if saved_s > 0.0 else None,
    )


def _gain(baseline: Figures | None, best: Figures | None) -> float | None:
    if baseline is None or best is None:
        return None
    if not baseline.tokens_per_s_per_gpu or not best.tokens_per_s_per_gpu:
        return None
    return best.tokens_per_s_per_gpu / baseline.tokens_per_s_per_gpu
