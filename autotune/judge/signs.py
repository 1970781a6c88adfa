"""Signs that a learning curve is not what its reward says: hacked rewards, dead signal, two policies.

A sign never decides a trial. It warns with its figures, and stage quality reads moves from it. Windows
are the first and the last quarter of the steps; a rise has to be twice its own standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from autotune.judge.figures import NO_VARIANCE, PROBABILITY_GAP, RESPONSE_LENGTH, column
from autotune.judge.guards import ENTROPY, REWARD
from autotune.judge.statistics import detrended_std, finite, last_quarter, mean
from autotune.judge.validation import validations
from autotune.records import MetricRow

CORRELATION = "training/rollout_actor_probs_pearson_corr"

_FEWEST_STEPS = 8
_LENGTH_FACTOR = 2.0
_ENTROPY_LEFT_FRAC = 0.2
_NO_VARIANCE_FRAC = 0.8
_VALIDATION_FALL_FRAC = 0.05
_GAP = 0.01
_CORRELATION = 0.95


class SignName(str, Enum):
    """What a curve can show besides its reward."""

    LENGTH_GREW = "length_grew"
    LENGTH_SHRANK = "length_shrank"
    ENTROPY_FELL = "entropy_fell"
    VALIDATION_FELL = "validation_fell"
    NO_SIGNAL = "no_signal"
    MISMATCH = "mismatch"


@dataclass(frozen=True)
class Sign:
    """One sign with its evidence."""

    name: SignName
    text: str
    """One sentence with the figures, for people."""


def signs(rows: Sequence[MetricRow]) -> list[Sign]:
    """The signs that a run's rows show; the ones about a course need at least 8 steps."""
    found = [*_no_signal(rows), *_mismatch(rows)]
    if len(rows) >= _FEWEST_STEPS:
        found += [*_length(rows), *_entropy(rows), *_validation(rows)]
    return found


def _ends(rows: Sequence[MetricRow], key: str) -> tuple[float, float] | None:
    """Means over the first and the last quarter; None where either has no figure."""
    late = last_quarter(rows)
    before, after = mean(column(rows[: len(late)], key)), mean(column(late, key))
    return None if before is None or after is None else (before, after)


def _rise(rows: Sequence[MetricRow]) -> tuple[float, float] | None:
    """Reward at the beginning and at the end, where it rose by more than chance."""
    ends, scatter = _ends(rows, REWARD), detrended_std(column(rows, REWARD))
    if ends is None or scatter is None:
        return None
    error = scatter * math.sqrt(2.0 / len(last_quarter(rows)))
    return ends if ends[1] - ends[0] > max(2.0 * error, 1e-9) else None


def _told(ends: tuple[float, float]) -> str:
    return f"from {ends[0]:.3g} to {ends[1]:.3g}"


def _length(rows: Sequence[MetricRow]) -> Iterator[Sign]:
    reward, length = _rise(rows), _ends(rows, RESPONSE_LENGTH)
    if reward is None or length is None or min(length) <= 0.0:
        return
    course = f"the reward rose {_told(reward)} while responses went {_told(length)} tokens"
    if length[1] >= _LENGTH_FACTOR * length[0]:
        yield Sign(SignName.LENGTH_GREW, f"{course}: the reward may pay for length; read some responses")
    elif length[1] * _LENGTH_FACTOR <= length[0]:
        yield Sign(SignName.LENGTH_SHRANK, f"{course}: the reward may pay for brevity; read some responses")


def _entropy(rows: Sequence[MetricRow]) -> Iterator[Sign]:
    entropy = _ends(rows, ENTROPY)
    if entropy is None or entropy[0] <= 0.0 or entropy[1] > _ENTROPY_LEFT_FRAC * entropy[0]:
        return
    reward = _rise(rows)
    course = "" if reward is None else f" while the reward rose {_told(reward)}"
    yield Sign(
        SignName.ENTROPY_FELL, f"entropy fell {_told(entropy)}{course}: the policy hardly explores any more"
    )


def _validation(rows: Sequence[MetricRow]) -> Iterator[Sign]:
    checked, reward = validations(rows), _rise(rows)
    if len(checked) < 2 or reward is None:
        return
    best, last = max(checked, key=lambda one: one.reward), checked[-1]
    if best.reward - last.reward <= _VALIDATION_FALL_FRAC * max(abs(best.reward), 1e-9):
        return
    yield Sign(
        SignName.VALIDATION_FELL,
        f"validation reward fell from {best.reward:.3g} in step {best.step} to {last.reward:.3g} in step"
        f" {last.step} while the training reward rose {_told(reward)}",
    )


def _no_signal(rows: Sequence[MetricRow]) -> Iterator[Sign]:
    last = last_quarter(rows)
    flat = mean(column(last, NO_VARIANCE))
    if flat is not None and flat >= _NO_VARIANCE_FRAC:
        yield Sign(
            SignName.NO_SIGNAL,
            f"in {flat:.0%} of the last groups all responses earned the same: such groups teach nothing",
        )
    elif flat is None and last and all(_no_advantage(row) for row in last):
        yield Sign(
            SignName.NO_SIGNAL,
            f"every advantage was 0 in the last {len(last)} steps: all responses of a prompt earned the same",
        )


def _no_advantage(row: MetricRow) -> bool:
    bounds = finite(row.values.get(f"critic/advantages/{bound}") for bound in ("max", "min"))
    return bounds == [0.0, 0.0]


def _mismatch(rows: Sequence[MetricRow]) -> Iterator[Sign]:
    last = last_quarter(rows)
    gap, correlation = mean(column(last, PROBABILITY_GAP)), mean(column(last, CORRELATION))
    if gap is not None and gap > _GAP:
        yield Sign(
            SignName.MISMATCH, f"rollout and trainer probabilities differ by {gap:.3g} (normal below 0.005)"
        )
    elif correlation is not None and correlation < _CORRELATION:
        yield Sign(
            SignName.MISMATCH,
            f"rollout and trainer probabilities correlate by {correlation:.3f} only (normal above 0.99)",
        )
