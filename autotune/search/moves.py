"""Single steps in a search space: smaller, larger, neighbours, completed points. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from autotune.job.space_resolution import ResolvedParameter, ResolvedSpace
from autotune.records import Overrides, Value
from autotune.search.points import Points

_FLOAT_STEPS = 10
"""A float range without a step is walked in tenths of its width (of its ratio, if log)."""
_SAME_REL = 1e-9
"""Floats this close are one value: a step up and down again does not end on the last bit."""


def point(space: ResolvedSpace, choose: Callable[[ResolvedParameter], Value]) -> dict[str, Value]:
    """A full point: `choose` is asked for each parameter that the ones chosen before it leave active."""
    chosen: dict[str, Value] = {}
    for parameter in space.parameters:
        # Conditions name facts and earlier parameters only, so one pass in order decides them all.
        if parameter in space.active(chosen):
            chosen[parameter.key] = choose(parameter)
    return chosen


def completed(space: ResolvedSpace, params: Mapping[str, Value]) -> dict[str, Value]:
    """`params` as a full point: inactive ones left out, missing ones at the user's or the safest value."""
    return point(space, lambda p: params[p.key] if p.key in params else default_value(p))


def default_value(parameter: ResolvedParameter) -> Value:
    """The user's own value, or the safest one where the user has none in use."""
    return parameter.current if parameter.current is not None else parameter.safest


def safest_point(space: ResolvedSpace) -> dict[str, Value]:
    """Every parameter at its safest value."""
    return point(space, lambda parameter: parameter.safest)


def changed(space: ResolvedSpace, params: Overrides, key: str, value: Value) -> dict[str, Value]:
    """`params` with one value changed, completed where the change switches other parameters on."""
    return completed(space, {**params, key: value})


def is_among(params: Overrides, points: Iterable[Overrides]) -> bool:
    """Whether `params` is one of `points`, floats compared up to rounding."""
    if isinstance(points, Points):
        return dict(params) in points
    return any(
        params.keys() == other.keys() and all(_is_same(params[key], other[key]) for key in params)
        for other in points
    )


def _is_same(left: Value, right: Value) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return math.isclose(left, right, rel_tol=_SAME_REL)
    return left == right


def scaled(parameter: ResolvedParameter, value: Value, factor: float) -> Value | None:
    """The allowed value nearest to `value * factor` on that side of `value`; None where there is none.

    A factor below 1 gives the largest allowed value not above the product, or the smallest allowed
    value where the product lies below the range; a factor above 1 the mirror image. Zero has no
    multiple: a factor above 1 takes it to the next allowed value.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if parameter.kind == "categorical":
        return _scaled_choice(_numbers(parameter), value, factor)
    if value == 0 and factor > 1.0:
        return _step(parameter, value, up=True)
    return _allowed(parameter, value * factor, value)


def _numbers(parameter: ResolvedParameter) -> list[int | float]:
    return sorted(c for c in parameter.choices if isinstance(c, (int, float)) and not isinstance(c, bool))


def _scaled_choice(numbers: list[int | float], value: float, factor: float) -> Value | None:
    wanted = value * factor
    if factor < 1.0:
        below = [number for number in numbers if number < value]
        return max((n for n in below if n <= wanted), default=below[0]) if below else None
    above = [number for number in numbers if number > value]
    if value == 0:
        return above[0] if above else None
    return min((n for n in above if n >= wanted), default=above[-1]) if above else None


def _allowed(parameter: ResolvedParameter, wanted: float, value: float) -> Value | None:
    """The allowed value nearest to `wanted`, rounded away from `value`; None where that is `value`."""
    low, high = _bounds(parameter)
    step = parameter.step or (1 if parameter.kind == "int" else None)
    place = min(max(wanted, low), high)
    if step is not None:
        # A thousandth of a step absorbs the rounding of a product that should be on the grid.
        steps = (place - low) / step
        steps = math.ceil(steps - 1e-3) if wanted > value else math.floor(steps + 1e-3)
        place = min(low + steps * step, high)
    found = _tidy(parameter, place)
    is_beyond = found > value if wanted > value else found < value
    return found if is_beyond and not _is_same(found, value) else None


def neighbours(parameter: ResolvedParameter, value: Value) -> list[Value]:
    """The next values of one parameter, the bolder (later in the checklist's order) first."""
    if parameter.kind == "categorical":
        choices = list(parameter.choices)
        place = next((i for i, choice in enumerate(choices) if _is_same(choice, value)), None)
        return [] if place is None else choices[place + 1 : place + 2] + choices[max(place - 1, 0) : place]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    found = [_step(parameter, value, up=up) for up in (True, False)]
    return [neighbour for neighbour in found if neighbour is not None]


def _step(parameter: ResolvedParameter, value: float, *, up: bool) -> Value | None:
    low, high = _bounds(parameter)
    if parameter.log:
        ratio = 2.0 if parameter.kind == "int" else (high / low) ** (1 / _FLOAT_STEPS)
        return _allowed(parameter, value * ratio if up else value / ratio, value)
    width = parameter.step or (1 if parameter.kind == "int" else (high - low) / _FLOAT_STEPS)
    return _allowed(parameter, value + width if up else value - width, value)


def _bounds(parameter: ResolvedParameter) -> tuple[float, float]:
    assert parameter.low is not None
    assert parameter.high is not None
    return parameter.low, parameter.high


def _tidy(parameter: ResolvedParameter, value: float) -> int | float:
    """`value` as the parameter's type, without the digits that arithmetic left at the end."""
    if parameter.kind == "int":
        return round(value)
    low, high = _bounds(parameter)
    return min(max(float(f"{value:.12g}"), low), high)
