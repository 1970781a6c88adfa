"""A search space with plain numbers: which parameters are in use, what they set, what they contain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from autotune.job.expressions import evaluate
from autotune.records import Overrides, Value


@dataclass(frozen=True, kw_only=True)
class ResolvedParameter:
    """One parameter with plain numbers; `low` and `high` are None for a categorical one."""

    key: str
    kind: Literal["int", "float", "categorical"]
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()
    when: str | None = None
    also: tuple[str, ...] = ()
    why: str = ""
    current: Value = None
    """The user's own value where it is in use and part of the range; else None."""

    @property
    def short_name(self) -> str:
        """What conditions call it: the last part of its key."""
        return self.key.rsplit(".", 1)[-1]

    @property
    def safest(self) -> Value:
        """The first choice, or the lower bound."""
        return self.choices[0] if self.kind == "categorical" else self.low

    def contains(self, value: Value) -> bool:
        """Whether `value` is one that this parameter can take."""
        if self.kind == "categorical":
            return any(same(value, choice) for choice in self.choices)
        if not is_number(value) or (self.kind == "int" and not float(value).is_integer()):
            return False
        assert self.low is not None
        assert self.high is not None
        if not self.low <= value <= self.high:
            return False
        return self.log or self.step is None or on_grid(value, self.low, self.step)

    def clip(self, value: Value) -> Value:
        """The value nearest to `value` that this parameter can take; the safest where nothing is near."""
        if self.contains(value):
            return value
        if self.kind == "categorical":
            return self._nearest_choice(value)
        if not is_number(value) or math.isnan(value):
            return self.safest
        assert self.low is not None
        assert self.high is not None
        clipped = min(max(value, self.low), self.high)
        if self.step is not None and not self.log:
            clipped = min(self.low + round((clipped - self.low) / self.step) * self.step, self.high)
        return round(clipped) if self.kind == "int" else float(clipped)

    def _nearest_choice(self, value: Value) -> Value:
        numbers = [choice for choice in self.choices if is_number(choice)]
        if not numbers or not is_number(value):
            return self.safest
        distances = [abs(number - value) for number in numbers]
        return numbers[distances.index(min(distances))]


@dataclass(frozen=True, kw_only=True)
class ResolvedSpace:
    """The stage's parameters in the checklist's order, and the facts that their conditions name."""

    name: str
    parameters: tuple[ResolvedParameter, ...]
    facts: Mapping[str, Value]

    def active(self, params: Mapping[str, Value]) -> tuple[ResolvedParameter, ...]:
        """The parameters whose `when` holds, given `params` where chosen and the user's values elsewhere."""
        names = dict(self.facts)
        active = []
        for parameter in self.parameters:
            if parameter.when is None or bool(evaluate(parameter.when, names)):
                active.append(parameter)
            if parameter.key in params:
                names[parameter.short_name] = params[parameter.key]
            elif parameter.current is not None:
                names[parameter.short_name] = parameter.current
            else:
                names.setdefault(parameter.short_name, parameter.safest)
        return tuple(active)

    def overrides(self, params: Mapping[str, Value]) -> dict[str, Value]:
        """The verl keys to set for `params`: the active ones and their `also` keys.

        At the user's own value the `also` keys are left as the user has them, so that the user's
        configuration is run exactly as it is.
        """
        overrides: dict[str, Value] = {}
        for parameter in self.active(params):
            if parameter.key not in params:
                continue
            value = params[parameter.key]
            overrides[parameter.key] = value
            if parameter.current is None or not same(value, parameter.current):
                overrides.update(dict.fromkeys(parameter.also, value))
        return overrides

    def user_params(self) -> dict[str, Value]:
        """The user's configuration as a point of this space: its values of the active parameters."""
        return {
            parameter.key: parameter.current
            for parameter in self.active({})
            if parameter.current is not None or parameter.contains(None)
        }

    def contains(self, params: Overrides) -> bool:
        """Whether `params` gives each active parameter a value it can take, and names no foreign key."""
        if not set(params) <= {parameter.key for parameter in self.parameters}:
            return False
        return all(
            parameter.key in params and parameter.contains(params[parameter.key])
            for parameter in self.active(params)
        )

    def clip(self, params: Overrides) -> dict[str, Value]:
        """`params` with each value moved to the nearest allowed one; foreign and inactive keys left out."""
        clipped = {
            parameter.key: parameter.clip(params[parameter.key])
            for parameter in self.parameters
            if parameter.key in params
        }
        return {
            parameter.key: clipped[parameter.key]
            for parameter in self.active(clipped)
            if parameter.key in clipped
        }


def on_grid(value: float, low: float, step: float) -> bool:
    """Whether `value` is a whole number of steps from `low`, rounding apart."""
    position = (value - low) / step
    return abs(position - round(position)) <= 1e-6


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether the value is a number; `true` is none, as in YAML."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same(left: Value, right: Value) -> bool:
    """Equality in which `true` is not 1, as in YAML."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)
