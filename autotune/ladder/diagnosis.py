"""What a reward curve and its KL curve say about the learning settings. Pure functions.

The signs and moves are the checklist's third level, with the keys that verl reads: KL is steered by
`kl_loss_coef` (or `kl_ctrl` where the KL is a penalty in the reward) and by the learning rate. A move on
a key that the stage does not search is passed over.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autotune.judge.signs import SignName
from autotune.judge.statistics import last_quarter, mean
from autotune.records import Value

_LR = "actor_rollout_ref.actor.optim.lr"
_KL = "actor_rollout_ref.actor.kl_loss_coef"
_KL_PENALTY = "algorithm.kl_ctrl.kl_coef"
_KL_CONTROL = "algorithm.kl_ctrl.type"
_CLIP = "actor_rollout_ref.actor.clip_ratio_high"
_ENTROPY = "actor_rollout_ref.actor.entropy_coeff"
_TEMPERATURE = "actor_rollout_ref.rollout.temperature"

_FALL_FRAC = 0.10
"""An end this far under the peak, as a share of the curve's range, is a fall."""
_SWING = 0.10
"""Step-to-step swings of this size at a high level (the checklist's +-0.1)."""
_BAND_SHARE = 0.9
"""How near to the upper end of the KL band a rising curve is sent."""
_LEAST_FACTOR = 1.05
"""Smaller changes of the learning rate drown in the noise of a short run."""


@dataclass(frozen=True)
class CurveMove:
    """Multiply the value of `key` by `factor`, or set it to `value`, because of `sign`."""

    key: str
    factor: float
    sign: str
    """The diagnosis, with its figure."""
    reason: str
    """Why this should help."""
    value: Value = None
    """For a key without multiples; `factor` is 1 then."""


def moves(
    rewards: Sequence[float],
    kls: Sequence[float],
    kl_band: tuple[float, float],
    signs: Collection[str] = (),
) -> list[CurveMove]:
    """The moves that the curves ask for, the most pressing first; empty where they say nothing.

    Args:
        rewards: Mean reward of each step.
        kls: KL to the reference of each step.
        kl_band: Accepted KL at the end.
        signs: Names of the verdict's signs (`judge.signs.SignName`).
    """
    end_kl = mean(last_quarter(kls))
    found = _kl_over(end_kl, kl_band)
    if SignName.NO_SIGNAL.value in signs:
        # Without a difference between responses there is no gradient, and no reward curve to read.
        return found + _no_signal()
    found += _from_signs(signs)
    if len(rewards) >= 4:
        found += _fallen() if _fell_after_peak(rewards) else _swinging() if _swings(rewards) else []
    found += _kl_under(end_kl, kl_band)
    if not found and _still_rising(rewards):
        sign = "still rising"
        factor = _room(end_kl, kl_band)
        if factor > _LEAST_FACTOR:
            found.append(CurveMove(_LR, factor, sign, "larger steps get further in the same time"))
        found += _pull(2.0, sign, "a stronger pull to the reference lets the rise go on for longer")
    return found


def _pull(factor: float, sign: str, reason: str) -> list[CurveMove]:
    """The coefficient of the KL, wherever this job has it."""
    return [CurveMove(key, factor, sign, reason) for key in (_KL, _KL_PENALTY)]


def _kl_over(end_kl: float | None, kl_band: tuple[float, float]) -> list[CurveMove]:
    high = kl_band[1]
    if end_kl is None or end_kl <= high:
        return []
    sign = f"KL {end_kl:.3g} over {high:g}"
    factor = min(max(_step_ratio(end_kl, kl_band), 0.1), 0.9)
    adaptive = "an adaptive coefficient steers the KL to target_kl by itself"
    return [
        CurveMove(_LR, factor, sign, "KL grows with the square of the distance, the distance with the steps"),
        # The pull back is proportional to the coefficient, so the overshoot says how far to go.
        *_pull(min(max(end_kl / high, 2.0), 10.0), sign, "pulls back to the reference, by the overshoot"),
        CurveMove(_KL_CONTROL, 1.0, sign, adaptive, value="adaptive"),
    ]


def _kl_under(end_kl: float | None, kl_band: tuple[float, float]) -> list[CurveMove]:
    low = kl_band[0]
    if end_kl is None or end_kl >= low:
        return []
    sign = f"KL {end_kl:.3g} under {low:g}, the policy hardly moves"
    factor = min(max(_step_ratio(end_kl, kl_band), 1.1), 3.0)
    return [
        CurveMove(_LR, factor, sign, "larger steps reach the band in the same time"),
        *_pull(0.3, sign, "a weaker pull lets the policy leave the reference"),
    ]


def _fallen() -> list[CurveMove]:
    sign = "early peak, then fall"
    return [
        CurveMove(_CLIP, 0.5, sign, "a tighter clip keeps one batch from undoing what was learned"),
        CurveMove(_LR, 0.5, sign, "smaller steps overshoot less"),
    ]


def _swinging() -> list[CurveMove]:
    sign = "swinging at a high level"
    return [
        CurveMove(_LR, 0.5, sign, "smaller steps swing less"),
        CurveMove(_ENTROPY, 2.0, sign, "an entropy bonus keeps the policy from jumping between answers"),
    ]


def _no_signal() -> list[CurveMove]:
    sign = "dead signal, all responses of a prompt earn the same"
    return [
        CurveMove(_ENTROPY, 2.0, sign, "more varied responses differ in reward"),
        CurveMove(_TEMPERATURE, 1.2, sign, "a warmer rollout gives more varied responses"),
    ]


def _from_signs(signs: Collection[str]) -> list[CurveMove]:
    found: list[CurveMove] = []
    if SignName.VALIDATION_FELL.value in signs:
        sign = "validation falls while the training reward rises"
        found += _pull(2.0, sign, "stays nearer to a policy that did not know the reward")
        found.append(CurveMove(_LR, 0.5, sign, "goes less far into the training prompts"))
    if {SignName.LENGTH_GREW.value, SignName.LENGTH_SHRANK.value}.intersection(signs):
        sign = "response length runs away while the reward rises"
        found += _pull(2.0, sign, "holds the length that the reference has")
    if SignName.ENTROPY_FELL.value in signs:
        sign = "entropy collapsed"
        found.append(CurveMove(_ENTROPY, 2.0, sign, "pays for keeping alternatives alive"))
    return found


def _step_ratio(end_kl: float, kl_band: tuple[float, float]) -> float:
    """How much larger the steps have to be for a KL in the middle of the band.

    KL grows with the square of the distance to the reference (its second-order expansion, Schulman et
    al., arXiv:1502.05477, section 6), and the distance with the learning rate.
    """
    low, high = kl_band
    middle = math.sqrt(low * high) if low > 0.0 else high / 2.0
    return math.sqrt(middle / max(end_kl, 1e-9))


def _room(end_kl: float | None, kl_band: tuple[float, float]) -> float:
    """How much larger the steps may be without leaving the band, as `_step_ratio` has it; at most 1.5."""
    if end_kl is None:
        return 1.5
    return min(math.sqrt(_BAND_SHARE * kl_band[1] / max(end_kl, 1e-9)), 1.5)


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
