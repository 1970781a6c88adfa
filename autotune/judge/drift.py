"""Did the machine change while it was measured? Told by repeats of configurations over time. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.judge.intervals import t_critical

_LEAST_DF = 2
_CERTAINTY_ALPHA = 0.05


@dataclass(frozen=True)
class Drift:
    """A trend that the repeats' own scatter does not explain."""

    frac_per_run: float
    """Relative change of tokens/s from one run to the next; negative: the machine gets slower."""
    runs: int
    """Runs between the first and the last repeat."""

    @property
    def total_frac(self) -> float:
        """Relative change from the first repeat to the last."""
        return math.expm1(math.log1p(self.frac_per_run) * self.runs)

    def __str__(self) -> str:
        return f"the machine drifted by {self.total_frac:+.1%} in speed over {self.runs} runs"


def machine_drift(groups: Sequence[Sequence[tuple[int, float]]]) -> Drift | None:
    """The common trend of several configurations' repeats; None where chance explains it.

    One slope of log speed over the order of the runs, each configuration with a level of its own
    (analysis of covariance), against a t test at 5 %.

    Args:
        groups: For each configuration, (place in the order of runs, speed above 0) of its repeats.
    """
    points = [(place, math.log(speed)) for group in groups for place, speed in group]
    x_dev, y_dev = _deviations(groups)
    df = len(points) - sum(bool(group) for group in groups) - 1
    sxx = math.fsum(x * x for x in x_dev)
    if df < _LEAST_DF or sxx == 0.0:
        return None
    slope = math.fsum(x * y for x, y in zip(x_dev, y_dev, strict=True)) / sxx
    residual = math.fsum((y - slope * x) ** 2 for x, y in zip(x_dev, y_dev, strict=True))
    if abs(slope) <= t_critical(_CERTAINTY_ALPHA, df) * math.sqrt(residual / df / sxx):
        return None
    places = [place for place, _ in points]
    return Drift(math.expm1(slope), max(places) - min(places))


def _deviations(groups: Sequence[Sequence[tuple[int, float]]]) -> tuple[list[float], list[float]]:
    """Places and log speeds, each less its own group's mean."""
    x_dev: list[float] = []
    y_dev: list[float] = []
    for group in groups:
        if not group:
            continue
        logs = [math.log(speed) for _, speed in group]
        x_mean, y_mean = statistics.fmean(place for place, _ in group), statistics.fmean(logs)
        x_dev += [place - x_mean for place, _ in group]
        y_dev += [log - y_mean for log in logs]
    return x_dev, y_dev
