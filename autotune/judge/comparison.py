"""Two configurations compared over pairs of runs that share a seed and follow each other. Pure.

A pair's difference is free of what both of its runs share: the data and their order, and the state that
the machine was in. Over the pairs the differences are taken as independent and about normal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from autotune.judge.intervals import MeanInterval, mean_interval
from autotune.judge.run_figures import RunFigures, length_elasticity, log_speed_gain
from autotune.records import Comparison, FinishOutcome

SPEED, REWARD = "tokens_per_s_per_gpu", "reward"
VALIDATION, MEMORY = "validation_reward", "peak_memory_gb"

Pair = tuple[RunFigures, RunFigures]
"""Winner, reference."""


def comparisons(pairs: Sequence[Pair], *, alpha: float, least_gain_frac: float) -> tuple[Comparison, ...]:
    """Speed, rewards and memory of the winner against the reference; what was not measured is left out.

    Args:
        pairs: Complete pairs; fewer than two give no interval, so nothing.
        alpha: Two-sided, of each interval.
        least_gain_frac: A gain shown to be below this share of the reference is `not better`.
    """
    found = [
        _speed(pairs, alpha, least_gain_frac),
        _difference(REWARD, lambda run: run.reward, pairs, alpha, least_gain_frac),
        _difference(VALIDATION, lambda run: run.validation_reward, pairs, alpha, least_gain_frac),
        _difference(MEMORY, lambda run: run.peak_memory_gb, pairs, alpha, least_gain_frac),
    ]
    return tuple(comparison for comparison in found if comparison is not None)


def is_worse(comparison: Comparison, least_gain_frac: float) -> bool:
    """Whether the winner is shown to lose more than `least_gain_frac` of the reference."""
    scale = 1.0 if comparison.metric == SPEED else abs(comparison.reference)
    return comparison.high < -least_gain_frac * scale


def _speed(pairs: Sequence[Pair], alpha: float, least_gain_frac: float) -> Comparison | None:
    elasticity = length_elasticity([run for pair in pairs for run in pair])
    gains = [log_speed_gain(winner, reference, elasticity) for winner, reference in pairs]
    interval = _complete_interval(gains, alpha)
    if interval is None:
        return None
    low, high = math.expm1(interval.low), math.expm1(interval.high)
    return Comparison(
        metric=SPEED,
        gain=math.expm1(interval.mean),
        low=low,
        high=high,
        claimed=math.expm1(interval.claimed),
        reference=_mean(reference.tokens_per_s_per_gpu for _, reference in pairs),
        winner=_mean(winner.tokens_per_s_per_gpu for winner, _ in pairs),
        outcome=_outcome(low, high, least_gain_frac),
    )


def _difference(
    metric: str,
    value: Callable[[RunFigures], float | None],
    pairs: Sequence[Pair],
    alpha: float,
    least_gain_frac: float,
) -> Comparison | None:
    values = [(value(winner), value(reference)) for winner, reference in pairs]
    gains = [None if ours is None or theirs is None else ours - theirs for ours, theirs in values]
    interval = _complete_interval(gains, alpha)
    if interval is None:
        return None
    base = _mean(theirs for _, theirs in values)
    # Less memory is better.
    sign = -1.0 if metric == MEMORY else 1.0
    low, high = sorted((sign * interval.low, sign * interval.high))
    return Comparison(
        metric=metric,
        gain=interval.mean,
        low=interval.low,
        high=interval.high,
        claimed=interval.mean if metric == MEMORY else interval.claimed,
        reference=base,
        winner=_mean(ours for ours, _ in values),
        outcome=_outcome(low, high, least_gain_frac * abs(base)),
    )


def _complete_interval(gains: Sequence[float | None], alpha: float) -> MeanInterval | None:
    """None where a pair lacks the metric: leaving pairs out could leave out the unlucky ones."""
    known = [gain for gain in gains if gain is not None and math.isfinite(gain)]
    return mean_interval(known, alpha) if len(known) == len(gains) else None


def _outcome(low: float, high: float, least_gain: float) -> FinishOutcome:
    if low > 0.0:
        return FinishOutcome.BETTER
    return FinishOutcome.NOT_BETTER if high < least_gain else FinishOutcome.INCONCLUSIVE


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)
