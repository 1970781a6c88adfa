"""What a reward curve and its KL curve say about the learning settings. Pure functions.

The signs and moves are the checklist's third level (`kl_ctrl.type` has no effect for GRPO, so KL is
steered by `kl_loss_coef` and the learning rate).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_LR = "actor_rollout_ref.actor.optim.lr"
_KL = "actor_rollout_ref.actor.kl_loss_coef"
_CLIP = "actor_rollout_ref.actor.clip_ratio_high"
_ENTROPY = "actor_rollout_ref.actor.entropy_coeff"

_FALL_FRAC = 0.10
"""An end this far under the peak, as a share of the curve's range, is a fall."""
_SWING = 0.10
"""Step-to-step swings of this size at a high level (the checklist's +-0.1)."""


@dataclass(frozen=True)
class CurveMove:
    """Multiply the value of `key` by `factor`, because of `sign`."""

    key: str
    factor: float
    sign: str


def moves(rewards: Sequence[float], kls: Sequence[float], kl_band: tuple[float, float]) -> list[CurveMove]:
    """The moves that the curves ask for, the most pressing first; empty where they say nothing.

    Args:
        rewards: Mean reward of each step.
        kls: KL to the reference of each step.
        kl_band: Accepted KL at the end.
    """
    found: list[CurveMove] = []
    end_kl = _end(kls)
    low, high = kl_band
    if end_kl is not None and end_kl > high:
        sign = f"KL {end_kl:.3g} over {high:g}"
        found.append(CurveMove(_LR, min(max(_step_ratio(end_kl, kl_band), 0.1), 0.9), sign))
        # The pull back is proportional to the coefficient, so the overshoot says how far to go.
        found.append(CurveMove(_KL, min(max(end_kl / high, 2.0), 10.0), sign))
    if len(rewards) >= 4:
        if _fell_after_peak(rewards):
            found.append(CurveMove(_CLIP, 0.5, "early peak, then fall"))
            found.append(CurveMove(_LR, 0.5, "early peak, then fall"))
        elif _swings(rewards):
            found.append(CurveMove(_LR, 0.5, "swinging at a high level"))
            found.append(CurveMove(_ENTROPY, 2.0, "swinging at a high level"))
    if end_kl is not None and end_kl < low:
        sign = f"KL {end_kl:.3g} under {low:g}, the policy hardly moves"
        found.append(CurveMove(_LR, min(max(_step_ratio(end_kl, kl_band), 1.1), 3.0), sign))
        found.append(CurveMove(_KL, 0.3, sign))
    if not found and _still_rising(rewards):
        found.append(CurveMove(_LR, 1.5, "still rising"))
        found.append(CurveMove(_KL, 2.0, "still rising"))
    return found


def _step_ratio(end_kl: float, kl_band: tuple[float, float]) -> float:
    """How much larger the steps have to be for a KL in the middle of the band.

    KL grows with the square of the distance to the reference (its second-order expansion, Schulman et
    al., arXiv:1502.05477, section 6), and the distance with the learning rate.
    """
    low, high = kl_band
    middle = math.sqrt(low * high) if low > 0.0 else high / 2.0
    return math.sqrt(middle / max(end_kl, 1e-9))


def _end(values: Sequence[float]) -> float | None:
    """Mean of the last quarter, at least 3 values where there are so many."""
    if not values:
        return None
    count = max(len(values) // 4, min(3, len(values)))
    return statistics.fmean(values[-count:])


def _smooth(values: Sequence[float]) -> list[float]:
    return [statistics.fmean(values[max(i - 1, 0) : i + 2]) for i in range(len(values))]


def _fell_after_peak(rewards: Sequence[float]) -> bool:
    smooth = _smooth(rewards)
    span = max(smooth) - min(smooth)
    peak = smooth.index(max(smooth))
    return (
        span > 0 and peak < len(smooth) * 2 / 3 and smooth[peak] - smooth[-1] > max(_FALL_FRAC * span, 0.02)
    )


def _swings(rewards: Sequence[float]) -> bool:
    tail = rewards[len(rewards) // 2 :]
    high = statistics.fmean(tail) > statistics.fmean(rewards[: len(rewards) // 2])
    return high and len(tail) >= 3 and _spread_about_trend(tail) > _SWING


def _spread_about_trend(values: Sequence[float]) -> float:
    """Standard deviation about a straight line, so that a steep climb is no swing."""
    slope, intercept = statistics.linear_regression(range(len(values)), values)
    return statistics.pstdev(value - intercept - slope * step for step, value in enumerate(values))


def _still_rising(rewards: Sequence[float]) -> bool:
    if len(rewards) < 4:
        return False
    half = len(rewards) // 2
    return statistics.fmean(rewards[half:]) > statistics.fmean(rewards[:half])
