"""Failures that only the figures show, read from a log's metric rows after the run.

Unlike the guards, which watch a running trial against limits of its job, this judges any run by its
own course: what counts is how the figures stand at the end against how they stood before.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.judge.kinds import FailureKind
from autotune.judge.statistics import finite, median
from autotune.records import MetricRow

_REWARDS = ("critic/rewards/mean", "critic/score/mean")
_GRADIENTS = ("actor/grad_norm",)
_LOSSES = ("actor/pg_loss", "actor/loss")
_DRIFTS = ("actor/kl_loss", "actor/reward_kl_penalty")
_ENTROPIES = ("actor/entropy", "actor/entropy_loss")
_BOUNDS = ("critic/score/max", "critic/score/min")
_PEAKS = ("actor/perf/max_memory_allocated_gb", "perf/max_memory_allocated_gb")
_WATCHED = frozenset((*_REWARDS, *_GRADIENTS, *_LOSSES, *_DRIFTS, *_ENTROPIES, *_BOUNDS, *_PEAKS))

_ROWS_KEPT = 5000
_LAST = 3
_DEAD_STEPS = 5
_FALL = 0.5
"""A reward below this share of its best has fallen."""
_KL_HIGH = 1.0
_KL_RISE = 5.0
_ENTROPY_HIGH = 1.0
_ENTROPY_RISE = 3.0
_LEAK_GROUPS = 5
_LEAK_STEPS = 10
_LEAK_GROWTH_FRAC = 0.15


@dataclass(frozen=True)
class CurveFault:
    """What the figures show."""

    kind: str
    reason: str


class Curves:
    """The watched figures of one run's rows, bounded."""

    def __init__(self) -> None:
        self.rows: deque[MetricRow] = deque(maxlen=_ROWS_KEPT)

    def add(self, row: MetricRow) -> None:
        """Takes in a row; step 0 is validation before training and is left out."""
        if row.step < 1:
            return
        watched = {key: value for key, value in row.values.items() if key in _WATCHED}
        self.rows.append(replace(row, values=watched))

    def fault(self) -> CurveFault | None:
        """The first fault that holds at the end of the rows, or None."""
        rows = list(self.rows)
        if not rows:
            return None
        return _not_finite(rows) or _dead_reward(rows) or _drift(rows) or _entropy(rows)

    def leak(self) -> str | None:
        """How device memory grew from step to step up to the end, or None where it did not."""
        peaks = _column(list(self.rows)[1:], _PEAKS)
        if len(peaks) < _LEAK_STEPS:
            return None
        size = len(peaks) // _LEAK_GROUPS
        groups = [max(peaks[index * size : (index + 1) * size]) for index in range(_LEAK_GROUPS)]
        rising = all(later > earlier * 1.01 for earlier, later in itertools.pairwise(groups))
        if not rising or groups[-1] < groups[0] * (1 + _LEAK_GROWTH_FRAC):
            return None
        gb_per_step = (peaks[-1] - peaks[0]) / (len(peaks) - 1)
        return f"peak memory grew from {peaks[0]:.3g} to {peaks[-1]:.3g} GB, {gb_per_step:.2g} GB a step"


def _values(rows: Sequence[MetricRow], keys: Sequence[str]) -> list[float | None]:
    """The first of `keys` that the rows have."""
    key = next((key for key in keys if any(key in row.values for row in rows)), None)
    return [row.values[key] for row in rows if key in row.values] if key else []


def _column(rows: Sequence[MetricRow], keys: Sequence[str]) -> list[float]:
    return finite(_values(rows, keys))


def _not_finite(rows: Sequence[MetricRow]) -> CurveFault | None:
    for what, keys in (("reward", _REWARDS), ("gradient norm", _GRADIENTS), ("loss", _LOSSES)):
        last = _values(rows, keys)[-_LAST:]
        missing = sum(value is None for value in last)
        if last and last[-1] is None and (missing >= 2 or what == "reward" or len(rows) == 1):
            reason = f"the {what} is NaN or Inf in step {rows[-1].step}"
            return CurveFault(FailureKind.NAN_INF.value, reason)
    return None


def _dead_reward(rows: Sequence[MetricRow]) -> CurveFault | None:
    bounds = [_values(rows, (key,)) for key in _BOUNDS]
    zero = [pair == (0.0, 0.0) for pair in zip(*bounds, strict=False)]
    if len(zero) < min(_DEAD_STEPS, len(rows)) or not zero or not all(zero[-_DEAD_STEPS:]):
        return None
    if all(zero):
        if len(zero) < 2:
            return None
        reason = f"every reward was 0 in all {len(zero)} steps"
        return CurveFault(FailureKind.REWARD_ZERO.value, reason)
    steps = len(zero) - next(index for index in reversed(range(len(zero))) if not zero[index]) - 1
    reason = f"every reward was 0 in the last {steps} steps, after it had been above"
    return CurveFault(FailureKind.REWARD_COLLAPSE.value, reason)


def _fell(rows: Sequence[MetricRow]) -> tuple[float, float] | None:
    """The best smoothed reward and the last, where the last is far below."""
    rewards = _column(rows, _REWARDS)
    if len(rewards) < 2 * _LAST:
        return None
    smooth = [median(rewards[index : index + _LAST]) or 0.0 for index in range(len(rewards) - _LAST + 1)]
    best, lowest, last = max(smooth), min(smooth), smooth[-1]
    span = best - min(lowest, smooth[0])
    return (best, last) if span > 0 and best - last > _FALL * span and best - last > 0.05 else None


def _drift(rows: Sequence[MetricRow]) -> CurveFault | None:
    drifts, fall = _column(rows, _DRIFTS), _fell(rows)
    if fall is None or len(drifts) < 2 * _LAST:
        return None
    early, last = median(drifts[: len(drifts) // 2]) or 0.0, median(drifts[-_LAST:]) or 0.0
    if last < _KL_HIGH or last < _KL_RISE * early:
        return None
    reason = (
        f"KL to the reference rose to {last:.3g} while the reward fell from {fall[0]:.3g} to {fall[1]:.3g}"
    )
    return CurveFault(FailureKind.KL_DRIFT.value, reason)


def _entropy(rows: Sequence[MetricRow]) -> CurveFault | None:
    entropies = _column(rows, _ENTROPIES)
    if len(entropies) < 2 * _LAST:
        return None
    early, last = median(entropies[:_LAST]) or 0.0, median(entropies[-_LAST:]) or 0.0
    if last < _ENTROPY_HIGH or last < _ENTROPY_RISE * early:
        return None
    reason = f"entropy rose from {early:.3g} to {last:.3g}"
    return CurveFault(FailureKind.ENTROPY_EXPLOSION.value, reason)
