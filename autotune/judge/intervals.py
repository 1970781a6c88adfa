"""Intervals of means over few values: Student's t by its closed form, so nothing is installed for it."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_DF = 200
"""Beyond so many degrees of freedom the quantile hardly moves; the sum stays short."""


@dataclass(frozen=True)
class MeanInterval:
    """A mean and the two-sided interval around it, in the values' unit."""

    mean: float
    low: float
    high: float
    standard_error: float


def mean_interval(values: Sequence[float], alpha: float) -> MeanInterval | None:
    """Mean of independent values with its two-sided 1 - `alpha` interval; None with fewer than two.

    Student's t: values about normal, their spread unknown and estimated from themselves.
    """
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    standard_error = statistics.stdev(values) / math.sqrt(len(values))
    half = t_critical(alpha, len(values) - 1) * standard_error
    return MeanInterval(mean, mean - half, mean + half, standard_error)


@functools.lru_cache(maxsize=1024)
def t_critical(alpha: float, df: int) -> float:
    """The t that |T| exceeds with probability `alpha`, for a whole number of degrees of freedom.

    Raises:
        ValueError: `alpha` is not between 0 and 1, or `df` below 1.
    """
    if not 0.0 < alpha < 1.0 or df < 1:
        raise ValueError(f"alpha must be in (0, 1) and df at least 1, but got {alpha=}, {df=}")
    low, high = 0.0, 1.0
    while _within(high, df) < 1.0 - alpha:
        low, high = high, high * 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, df) < 1.0 - alpha else (low, middle)
    return high


def _within(t: float, df: int) -> float:
    """P(|T| <= t). Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    df = min(df, _MOST_DF)
    theta = math.atan2(t, math.sqrt(df))
    cosine, sine = math.cos(theta), math.sin(theta)
    term, total = (cosine, cosine if df > 1 else 0.0) if df % 2 else (1.0, 1.0)
    for k in range(3 if df % 2 else 2, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2.0 / math.pi * (theta + sine * total) if df % 2 else sine * total
