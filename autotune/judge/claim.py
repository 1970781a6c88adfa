"""What is claimed of a gain that a test called one: its mean less its share of luck. Pure.

Means that pass a test are too large on average, the more so the weaker the test is, and a spread estimated
from the same few values is too small. From those values alone no estimate is free of this bias; with values
that the test has not seen there is one.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

from autotune.judge.intervals import MeanInterval, mean_interval, t_critical

_POINTS = 1000
"""Of each midpoint rule; its error is far below the noise of any run."""


def claimed_gain(decided: Sequence[float], after: Sequence[float], alpha: float) -> float:
    """The gain to claim, never below 0 where the test was passed; not passed: the mean of all values.

    Args:
        decided: The values of which the test was made, two or more: is their 1 - `alpha` interval above 0?
        after: Values that were gathered because it was; may be empty, then luck is left out by an
            approximation.
        alpha: Two-sided.
    """
    interval = mean_interval(decided, alpha)
    if interval is None:
        raise ValueError(f"a test needs two values, but got {len(decided)}")
    if interval.low <= 0.0:
        return statistics.fmean([*decided, *after])
    if after:
        return max(mean_after_test(decided, after, t_critical(alpha, len(decided) - 1)), 0.0)
    return likeliest_mean(interval)


def mean_after_test(decided: Sequence[float], after: Sequence[float], t: float) -> float:
    """The mean of normal values, without bias given that Student's t of `decided` was above `t`.

    The mean of `after` alone is unbiased; its expectation given the mean and the squares of all values,
    and given that the test was passed, is so too and scatters least (Rao and Blackwell). For a known spread
    this is the estimate of A. Cohen, H. B. Sackrowitz, Two stage conditionally unbiased estimators of the
    selected mean, Statistics and Probability Letters 8(3), 1989, and of J. Bowden, F. Dudbridge, Unbiased
    estimation of odds ratios: combining genomewide association scans with replication studies, Genetic
    Epidemiology 33(5), 2009. The spread is unknown here: given mean and squares, normal values lie evenly on
    a sphere. An angle on it says how far apart the two means are, and a second one how much of the squares
    that remain falls inside `decided`; both are summed over.
    """
    first, more = len(decided), len(after)
    count = first + more
    mean = statistics.fmean([*decided, *after])
    squares = math.fsum((value - mean) ** 2 for value in (*decided, *after))
    passing, moment = 0.0, 0.0
    for place in range(_POINTS):
        angle = ((place + 0.5) / _POINTS - 0.5) * math.pi
        apart, rest = math.sqrt(squares) * math.sin(angle), squares * math.cos(angle) ** 2
        first_mean = mean + apart * math.sqrt(more / (first * count))
        if first_mean <= 0.0 or rest == 0.0:
            continue
        most_inside = first * (first - 1) * (first_mean / t) ** 2 / rest
        weight = _chance_inside(most_inside, first, more) * math.cos(angle) ** (count - 3)
        passing += weight
        moment += weight * apart
    if passing == 0.0:
        return mean if squares == 0.0 else statistics.fmean(after)
    return mean - math.sqrt(first / (more * count)) * moment / passing


def _chance_inside(most: float, first: int, more: int) -> float:
    """Chance that a share of at most `most` of the remaining squares falls inside the first values."""
    if most >= 1.0 or more == 1:
        # A single further value has no squares of its own.
        return float(most >= 1.0)
    table = _inside(first, more)
    exact = math.asin(math.sqrt(most)) / (math.pi / 2) * _POINTS
    place = int(exact)
    return table[place] + (exact - place) * (table[place + 1] - table[place])


@functools.lru_cache(maxsize=32)
def _inside(first: int, more: int) -> tuple[float, ...]:
    """Distribution of asin(sqrt(share)) over 0..pi/2, the share being Beta((first-1)/2, (more-1)/2)."""
    angles = [(place + 0.5) / _POINTS * math.pi / 2 for place in range(_POINTS)]
    below = [0.0]
    for angle in angles:
        below.append(below[-1] + math.sin(angle) ** (first - 2) * math.cos(angle) ** (more - 2))
    return tuple(value / below[-1] for value in below)


def likeliest_mean(interval: MeanInterval) -> float:
    """The maximum of the likelihood given that the interval lies above 0; never below its lower end.

    H. Zhong, R. L. Prentice, Bias-reduced estimators and confidence intervals for odds ratios in
    genome-wide association studies, Biostatistics 9(4), 2008, in the normal approximation. Where the test
    is weak it takes off too little, where it is strong a little too much. Not passed: the mean.
    """
    if interval.low <= 0.0 or interval.standard_error == 0.0:
        return interval.mean
    threshold = interval.mean - interval.low
    low, high = interval.low, interval.mean
    for _ in range(60):
        middle = (low + high) / 2.0
        expected = _mean_above(threshold, middle, interval.standard_error)
        low, high = (middle, high) if expected < interval.mean else (low, middle)
    return low


def _mean_above(threshold: float, mean: float, standard_error: float) -> float:
    """Mean of a normal value, given that it lies above `threshold`."""
    normal = statistics.NormalDist()
    z = (threshold - mean) / standard_error
    tail = normal.cdf(-z)
    return mean + standard_error * normal.pdf(z) / tail if tail > 1e-12 else threshold
