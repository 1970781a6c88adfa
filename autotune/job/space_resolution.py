"""A search space for one job: expressions become numbers, and the user's own values become part of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.errors import Fault, JobFileError
from autotune.job.expressions import ExpressionError, evaluate
from autotune.job.resolved_space import ResolvedParameter, ResolvedSpace, is_number, on_grid, same
from autotune.job.space import AnyParameter, CategoricalParameter, FloatParameter, IntParameter, SearchSpace
from autotune.records import Value

__all__ = ["ResolvedParameter", "ResolvedSpace", "resolve_space"]

_TOLERANCE = 1e-9


def resolve_space(
    space: SearchSpace, facts: Mapping[str, Value], current: Mapping[str, Value]
) -> ResolvedSpace:
    """The space for one job.

    A parameter that is in use in the user's configuration always contains the user's own value: the
    range is widened to it (a step that misses it gives way, a logarithmic range that would have to
    reach 0 becomes linear), or the choice is added, in order among numbers and in front otherwise.

    Args:
        space: As the file has it.
        facts: From `job_facts`.
        current: The user's flat, resolved verl configuration.

    Raises:
        JobFileError: expressions without a value in this job, reversed ranges, no choice left; all at once.
    """
    faults: list[Fault] = []
    resolved: list[ResolvedParameter] = []
    for key, parameter in space.parameters.items():
        try:
            resolved.append(_plain(key, parameter, facts))
        except ExpressionError as error:
            faults.append(_fault(space, key, f"`{error.part}`: {error.reason}", error.allowed))
        except ValueError as error:
            faults.append(_fault(space, key, str(error), "low <= high"))
    parameters = [] if faults else _with_users_values(space, resolved, facts, current)
    faults += [
        _fault(space, parameter.key, "no choice left by `keep` in this job", "at least one choice")
        for parameter in parameters
        if parameter.kind == "categorical" and not parameter.choices
    ]
    if faults:
        raise JobFileError(faults)
    return ResolvedSpace(name=space.name, parameters=tuple(parameters), facts=dict(facts))


def _with_users_values(
    space: SearchSpace,
    resolved: Sequence[ResolvedParameter],
    facts: Mapping[str, Value],
    current: Mapping[str, Value],
) -> list[ResolvedParameter]:
    """The parameters, each containing the user's own value where that is in use."""
    names = dict(facts)
    parameters = []
    for plain in resolved:
        own = current.get(plain.key.lstrip("+"), current.get(plain.key))
        own = space.parameters[plain.key].default if own is None else own
        in_use = plain.when is None or _holds(space, plain, names)
        parameters.append(_with_current(plain, own, in_use=in_use))
        if own is not None:
            names[plain.short_name] = own
        elif plain.kind != "categorical" or plain.choices:
            names.setdefault(plain.short_name, plain.safest)
    return parameters


def _holds(space: SearchSpace, parameter: ResolvedParameter, names: Mapping[str, Value]) -> bool:
    assert parameter.when is not None
    try:
        return bool(evaluate(parameter.when, names))
    except ExpressionError as error:
        found = f"`{error.part}`: {error.reason}"
        raise JobFileError(_fault(space, f"{parameter.key}.when", found, error.allowed)) from None


def _plain(key: str, parameter: AnyParameter, facts: Mapping[str, Value]) -> ResolvedParameter:
    """The parameter with its expressions evaluated; ValueError where nothing sensible comes out."""
    common: dict[str, Any] = {name: getattr(parameter, name) for name in ("kind", "when", "also", "why")}
    if isinstance(parameter, CategoricalParameter):
        return ResolvedParameter(key=key, choices=_choices(parameter, facts), **common)
    low, high = _bound(parameter, "low", facts), _bound(parameter, "high", facts)
    if low > high:
        raise ValueError(f"in this job low is {low:g} and high is {high:g}")
    if parameter.log and low <= 0:
        raise ValueError(f"in this job low is {low:g}, and a logarithmic range starts above 0")
    step = None if parameter.log else parameter.step
    high = _grid_end(low, high, step)
    return ResolvedParameter(key=key, low=low, high=high, step=step, log=parameter.log, **common)


def _bound(parameter: IntParameter | FloatParameter, name: str, facts: Mapping[str, Value]) -> float:
    text = getattr(parameter, name)
    value = evaluate(text, facts) if isinstance(text, str) else text
    if not is_number(value):
        raise ExpressionError(str(text), "is no number", "a number or an arithmetic expression")
    if parameter.kind == "float":
        return float(value)
    if not float(value).is_integer():
        raise ExpressionError(
            str(text), f"is {value:g}, no whole number", "whole numbers, //, ceil() or floor()"
        )
    return int(value)


def _choices(parameter: CategoricalParameter, facts: Mapping[str, Value]) -> tuple[Value, ...]:
    choices: list[Value] = []
    for choice in parameter.choices:
        value = evaluate(choice[1:], facts) if isinstance(choice, str) and choice.startswith("=") else choice
        is_kept = parameter.keep is None or bool(evaluate(parameter.keep, {**facts, "value": value}))
        if is_kept and not any(same(value, other) for other in choices):
            choices.append(value)
    return tuple(choices)


def _with_current(parameter: ResolvedParameter, value: Value, *, in_use: bool) -> ResolvedParameter:
    """The parameter with the user's own value noted and, where it is in use, contained."""
    if parameter.kind == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if parameter.contains(value):
        return _replaced(parameter, current=value)
    if not in_use or value is None or value == "???":
        return parameter
    if parameter.kind == "categorical":
        return _replaced(parameter, current=value, choices=_with_choice(parameter.choices, value))
    if (
        not is_number(value)
        or not math.isfinite(value)
        or (parameter.kind == "int" and isinstance(value, float))
    ):
        return parameter
    assert parameter.low is not None
    assert parameter.high is not None
    low, high = min(parameter.low, value), max(parameter.high, value)
    log = parameter.log and low > 0
    step = parameter.step
    if step is not None and not (on_grid(value, low, step) and on_grid(parameter.low, low, step)):
        step = 1 if parameter.kind == "int" else None
    if parameter.kind == "int" and step is None and not log:
        step = 1
    return _replaced(parameter, current=value, low=low, high=_grid_end(low, high, step), step=step, log=log)


def _with_choice(choices: Sequence[Value], value: Value) -> tuple[Value, ...]:
    """`value` among `choices`: where it belongs in a row of rising or falling numbers, else in front."""
    numbers = [choice for choice in choices if is_number(choice)]
    if len(numbers) == len(choices) and is_number(value):
        for falling in (False, True):
            if list(choices) == sorted(numbers, reverse=falling):
                return tuple(sorted([*numbers, value], reverse=falling))
    return (value, *choices)


def _replaced(parameter: ResolvedParameter, **changes: Any) -> ResolvedParameter:
    return ResolvedParameter(**{**parameter.__dict__, **changes})


def _grid_end(low: float, high: float, step: float | None) -> float:
    """The last value of the grid that starts at `low`; `high` itself where there is no grid."""
    if step is None:
        return high
    count = math.floor((high - low) / step + _TOLERANCE)
    end = low + count * step
    return high if math.isclose(end, high, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * step) else end


def _fault(space: SearchSpace, key: str, found: str, allowed: str) -> Fault:
    return Fault(
        where=f"search space {space.name}",
        key=key,
        found=found,
        allowed=allowed,
        next_step="change the range, or the job's lengths and batch sizes that it is computed from",
    )
