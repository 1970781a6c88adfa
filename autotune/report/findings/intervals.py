"""How far a ratio of two speeds is known, from the noise between two runs of one configuration."""

from __future__ import annotations

import math

SIGMAS = 1.96
"""Half-width of a 95 % interval of a normal distribution, in standard deviations."""


def ratio_interval(ratio: float, noise_frac: float, reference_runs: int) -> tuple[float, float]:
    """95 % interval of one run's speed over the mean of `reference_runs` others.

    `noise_frac` is the relative standard deviation of one run and is taken as known; speeds scatter
    by factors, so the interval is symmetric in the logarithm.
    """
    spread = noise_frac * math.sqrt(1.0 + 1.0 / reference_runs)
    return ratio * math.exp(-SIGMAS * spread), ratio * math.exp(SIGMAS * spread)
