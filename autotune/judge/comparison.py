"""Two configurations compared over pairs of runs that share a seed and follow each other. Pure.

A pair's difference is free of what both of its runs share: the data and their order, and the state that
the machine was in. Over the pairs the differences are taken as independent and about normal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autotune.judge.claim import claimed_gain
from autotune.judge.intervals import mean_interval
from autotune.judge.run_figures import RunFigures, cautious_elasticity, length_elasticity, log_speed_gain
from autotune.records import Comparison, FinishOutcome

SPEED, REWARD = "tokens_per_s_per_gpu", "reward"
VALIDATION, MEMORY = "validation_reward", "peak_memory_gb"

Pair = tuple[RunFigures, RunFigures]
"""Winner, reference."""


def comparisons(
    pairs: Sequence[Pair], *, after: Sequence[Pair] = (), alpha: float, least_gain_frac: float
) -> tuple[Comparison, ...]:
    """Speed, rewards and memory of the winner against the reference; what was not measured is left out.

    Args:
        pairs: Complete pairs, which decide; fewer than two give no interval, so nothing.
        after: Pairs that were run because `pairs` decided for the winner: they change no outcome, and free
            the claimed gain of the luck in that decision.
        alpha: Two-sided, of each interval.
        least_gain_frac: A gain shown to be below this share of the reference is `not better`.
    """
    found = [
        _speed(pairs, after, alpha, least_gain_frac),
        _difference(REWARD, lambda run: run.reward, pairs, after, alpha, least_gain_frac),
        _difference(VALIDATION, lambda run: run.validation_reward, pairs, after, alpha, least_gain_frac),
        _difference(MEMORY, lambda run: run.peak_memory_gb, pairs, after, alpha, least_gain_frac),
    ]
    return tuple(comparison for comparison in found if comparison is not None)


def is_worse(comparison: Comparison, least_gain_frac: float) -> bool:
    """Whether the winner is shown to lose more than `least_gain_frac` of the reference."""
    scale = 1.0 if comparison.metric == SPEED else abs(comparison.reference)
    return comparison.high < -least_gain_frac * scale


@dataclass(frozen=True)
class _Gain:
    """What the pairs say of one metric, in the unit in which pairs are compared."""

    mean: float
    low: float
    high: float
    claimed: float


def _speed(
    pairs: Sequence[Pair], after: Sequence[Pair], alpha: float, least_gain_frac: float
) -> Comparison | None:
    # Settled by the pairs that decide, so that later ones do not move what was decided.
    elasticity = cautious_elasticity(pairs, length_elasticity([run for pair in pairs for run in pair]))
    gains, more = (
        [log_speed_gain(winner, reference, elasticity) for winner, reference in some]
        for some in (pairs, after)
    )
    found = _gain(gains, more, alpha)
    if found is None:
        return None
    low, high, claimed = (math.expm1(value) for value in (found.low, found.high, found.claimed))
    return Comparison(
        metric=SPEED,
        gain=math.expm1(found.mean),
        low=min(low, claimed),
        high=max(high, claimed),
        claimed=claimed,
        reference=_mean(reference.tokens_per_s_per_gpu for _, reference in (*pairs, *after)),
        winner=_mean(winner.tokens_per_s_per_gpu for winner, _ in (*pairs, *after)),
        outcome=_outcome(low, high, least_gain_frac),
    )


def _difference(
    metric: str,
    value: Callable[[RunFigures], float | None],
    pairs: Sequence[Pair],
    after: Sequence[Pair],
    alpha: float,
    least_gain_frac: float,
) -> Comparison | None:
    values, more = (
        [(value(winner), value(reference)) for winner, reference in some] for some in (pairs, after)
    )
    found = _gain([_less(*both) for both in values], [_less(*both) for both in more], alpha)
    if found is None:
        return None
    base = _mean(theirs for _, theirs in (*values, *more))
    # Less memory is better.
    sign = -1.0 if metric == MEMORY else 1.0
    low, high = sorted((sign * found.low, sign * found.high))
    claimed = found.mean if metric == MEMORY else found.claimed
    return Comparison(
        metric=metric,
        gain=found.mean,
        low=min(found.low, claimed),
        high=max(found.high, claimed),
        claimed=claimed,
        reference=base,
        winner=_mean(ours for ours, _ in (*values, *more)),
        outcome=_outcome(low, high, least_gain_frac * abs(_mean(theirs for _, theirs in values))),
    )


def _less(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs


def _gain(gains: Sequence[float | None], more: Sequence[float | None], alpha: float) -> _Gain | None:
    """None where a pair lacks the metric: leaving pairs out could leave out the unlucky ones.

    For the same reason the later pairs count all or none.
    """
    known, later = _known(gains), _known(more)
    interval = mean_interval(known, alpha) if len(known) == len(gains) else None
    if interval is None:
        return None
    claimed = claimed_gain(known, later if len(later) == len(more) else (), alpha)
    return _Gain(interval.mean, interval.low, interval.high, claimed)


def _known(gains: Sequence[float | None]) -> list[float]:
    return [gain for gain in gains if gain is not None and math.isfinite(gain)]


def _outcome(low: float, high: float, least_gain: float) -> FinishOutcome:
    if low > 0.0:
        return FinishOutcome.BETTER
    return FinishOutcome.NOT_BETTER if high < least_gain else FinishOutcome.INCONCLUSIVE


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)
