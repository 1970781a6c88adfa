"""A curve in one line of text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
NOT_A_NUMBER = "x"
"""Stands where a step has no finite value: NaN is what a person looks for in a curve."""


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """The curve from its smallest value (lowest bar) to its largest, in at most `width` characters.

    Longer curves are averaged bin by bin; a bin that holds a NaN shows it. A flat curve is at mid-height.
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, but got {width}")
    points = [_mean(values[start:stop]) for start, stop in _bins(len(values), width)]
    finite = [point for point in points if point is not None]
    if not finite:
        return NOT_A_NUMBER * len(points)
    low, high = min(finite), max(finite)
    return "".join(NOT_A_NUMBER if point is None else _bar(point, low, high) for point in points)


def _bins(count: int, width: int) -> list[tuple[int, int]]:
    bins = min(count, width)
    edges = [count * index // bins for index in range(bins + 1)] if bins else []
    return list(itertools.pairwise(edges))


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if len(finite) < len(values):
        return None
    # Each is divided before the sum, which is infinite for very large values, and rounding kept inside.
    return min(max(sum(value / len(finite) for value in finite), min(finite)), max(finite))


def _bar(value: float, low: float, high: float) -> str:
    span = high / 2 - low / 2  # halves, since the span of two very large values is infinite
    if span == 0:
        return BARS[len(BARS) // 2]
    share = (value / 2 - low / 2) / span
    return BARS[max(0, min(len(BARS) - 1, int(share * len(BARS))))]
