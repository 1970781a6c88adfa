"""Points of a search space that were tried, looked up by what they are: a thousand cost no more than one."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import overload

from autotune.records import Overrides, Value

_DIGITS = 9
"""Floats that agree in so many digits are one value: a step up and down again may change the last bit."""


def point_key(params: Overrides) -> Hashable:
    """What two runs of one point share, whatever the order of keys and the last bits of floats."""
    return frozenset((key, _value_key(value)) for key, value in params.items())


def _value_key(value: Value) -> Hashable:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    if isinstance(value, (int, float)):
        # 8 and 8.0 are one micro batch.
        return ("number", float(f"{value:.{_DIGITS}g}"))
    return ("json", json.dumps(value, sort_keys=True))


class Points(Sequence[Overrides]):
    """Parameter values in the order in which they were tried, with a fast `in`."""

    def __init__(self, points: Iterable[Overrides], keys: Iterable[Hashable] | None = None) -> None:
        """`keys` are the points' own, where they are known already."""
        self._points = list(points)
        self._count = len(self._points)
        self._places: dict[Hashable, int] = {}
        """Where a point came first; those that grew from these share it, and go on behind `_count`."""
        for place, key in enumerate(map(point_key, self._points) if keys is None else keys):
            self._places.setdefault(key, place)

    def with_point(self, point: Overrides, key: Hashable) -> Points:
        """These and one more, whose key is known; nothing is copied, unless it was done before."""
        more = Points(())
        more._points, more._places, more._count = self._points, self._places, self._count + 1
        if self._count < len(self._points):
            more._points = self._points[: self._count]
            more._places = {known: at for known, at in self._places.items() if at < self._count}
        more._places.setdefault(key, self._count)
        more._points.append(point)
        return more

    def __contains__(self, params: object) -> bool:
        return isinstance(params, dict) and self._places.get(point_key(params), self._count) < self._count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Overrides]:
        return iter(self._points[: self._count])

    @overload
    def __getitem__(self, place: int) -> Overrides: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Overrides]: ...
    def __getitem__(self, place: int | slice) -> Overrides | Sequence[Overrides]:
        return tuple(self._points[: self._count])[place]
