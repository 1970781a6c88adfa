"""Intervals of means over few values: Student's t by its closed form, so nothing is installed for it."""

from __future__ import annotations

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

    @property
    def claimed(self) -> float:
        """The mean, less what it owes to being told only because it is above 0; never below `low`.

        Means that pass a test are too large on average, the more so the weaker the test is. This is the
        maximum of the likelihood given that the test was passed (H. Zhong, R. L. Prentice, Bias-reduced
        estimators and confidence intervals for odds ratios in genome-wide association studies,
        Biostatistics 9(4), 2008), in the normal approximation; where the test is strong it takes a little
        too much. Not passed: the mean.
        """
        if self.low <= 0.0 or self.standard_error == 0.0:
            return self.mean
        threshold = self.mean - self.low
        low, high = self.low, self.mean
        for _ in range(60):
            middle = (low + high) / 2.0
            expected = _mean_above(threshold, middle, self.standard_error)
            low, high = (middle, high) if expected < self.mean else (low, middle)
        return low


def _mean_above(threshold: float, mean: float, standard_error: float) -> float:
    """Mean of a normal value, given that it lies above `threshold`."""
    normal = statistics.NormalDist()
    z = (threshold - mean) / standard_error
    tail = normal.cdf(-z)
    return mean + standard_error * normal.pdf(z) / tail if tail > 1e-12 else threshold


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
