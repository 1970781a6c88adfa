"""Small robust statistics over step figures. Missing values (None, NaN, Inf) are left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TypeVar

from autotune.judge.intervals import t_critical

MAD_TO_SIGMA = 1.4826
"""Scales the median absolute deviation to a normal distribution's standard deviation."""
_QUARTER_AT_LEAST = 3
_ONE_IN_100_Z = 2.326
"""The normal distribution's 99 % point."""
_Value = TypeVar("_Value")


def finite(values: Iterable[float | None]) -> list[float]:
    """The values that are numbers, in order."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def quarter_of(count: int) -> int:
    """How many of `count` steps make a quarter: rounded up, at least three where there are so many."""
    return min(max(_QUARTER_AT_LEAST, math.ceil(count / 4)), count)


def last_quarter(values: Sequence[_Value]) -> Sequence[_Value]:
    """What every figure of a curve's end is taken over."""
    return values[len(values) - quarter_of(len(values)) :]


def mean(values: Iterable[float | None]) -> float | None:
    """Arithmetic mean; None without a finite value."""
    kept = finite(values)
    return math.fsum(kept) / len(kept) if kept else None


def median(values: Iterable[float | None]) -> float | None:
    """Median; None without a finite value."""
    kept = finite(values)
    return float(statistics.median(kept)) if kept else None


def median_absolute_deviation(values: Iterable[float | None]) -> float | None:
    """Median distance from the median, in the values' unit; None without a finite value."""
    kept = finite(values)
    middle = median(kept)
    return None if middle is None else median(abs(value - middle) for value in kept)


def noise_frac(values: Iterable[float | None]) -> float | None:
    """Relative spread: 1.4826 x MAD / |median|. None with fewer than two values or a median of 0."""
    kept = finite(values)
    middle, spread = median(kept), median_absolute_deviation(kept)
    if len(kept) < 2 or middle is None or spread is None or middle == 0.0:
        return None
    return MAD_TO_SIGMA * spread / abs(middle)


def median_half_width(values: Iterable[float | None]) -> float | None:
    """Half width of the median's 95 % interval, in the values' unit; None with fewer than two values.

    A median's standard error is sqrt(pi / 2) times the mean's for normal values; the spread is robust.
    What differs from run to run is not in it: that is the noise floor's business.
    """
    kept = finite(values)
    spread = median_absolute_deviation(kept)
    if len(kept) < 2 or spread is None:
        return None
    return mean_half_width(math.sqrt(math.pi / 2.0) * MAD_TO_SIGMA * spread, len(kept))


def mean_half_width(std: float, count: int) -> float | None:
    """Half width of a mean's 95 % interval from the values' standard deviation; None below two values."""
    return None if count < 2 else t_critical(0.05, count - 1) * std / math.sqrt(count)


def noise_floor_frac(repeats: Iterable[float | None]) -> float | None:
    """Relative standard deviation between runs of one configuration; None with fewer than two.

    The sample's standard deviation is too small on average, by c4(n) for normal values (0.80 for two
    runs, as control charts know it); that is made up for.
    """
    kept = finite(repeats)
    middle = median(kept)
    if len(kept) < 2 or not middle:
        return None
    count = len(kept)
    c4 = math.sqrt(2.0 / (count - 1)) * math.exp(math.lgamma(count / 2) - math.lgamma((count - 1) / 2))
    return statistics.stdev(kept) / c4 / abs(middle)


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope of (x, y) points; None with fewer than two distinct x."""
    if len({x for x, _ in points}) < 2:
        return None
    x_mean = math.fsum(x for x, _ in points) / len(points)
    y_mean = math.fsum(y for _, y in points) / len(points)
    variance = math.fsum((x - x_mean) ** 2 for x, _ in points)
    return math.fsum((x - x_mean) * (y - y_mean) for x, y in points) / variance


def detrended_std(values: Iterable[float | None]) -> float | None:
    """Standard deviation about the values' own straight trend; None with fewer than four values.

    What a learning curve gains by learning is not noise; only the scatter about it is.
    """
    points = [(float(index), value) for index, value in enumerate(finite(values))]
    gradient = slope(points)
    if len(points) < 4 or gradient is None:
        return None
    x_mean = math.fsum(x for x, _ in points) / len(points)
    y_mean = math.fsum(y for _, y in points) / len(points)
    squares = math.fsum((y - y_mean - gradient * (x - x_mean)) ** 2 for x, y in points)
    return math.sqrt(squares / (len(points) - 2))


def scatter_ratio(degrees: int, other_degrees: int) -> float:
    """How many times one standard deviation may be another of the same noise; more happens in 1 of 100 pairs.

    Args:
        degrees: Degrees of freedom of the one; taken as 1 at least.
        other_degrees: Of the other. With fewer than 2 nothing can be said, and the ratio is infinite.

    The root of the F distribution's 99 % point, by the normal approximation of its cube root (Paulson, An
    approximate normalization of the analysis of variance distribution, 1942).
    """
    own, other = 2.0 / (9.0 * max(degrees, 1)), 2.0 / (9.0 * max(other_degrees, 1))
    z_squared = _ONE_IN_100_Z**2
    curvature = (1.0 - other) ** 2 - z_squared * other
    if curvature <= 0.0:
        return math.inf
    middle = (1.0 - own) * (1.0 - other)
    root = math.sqrt(middle**2 - curvature * ((1.0 - own) ** 2 - z_squared * own))
    ratio: float = ((middle + root) / curvature) ** 1.5
    return ratio
