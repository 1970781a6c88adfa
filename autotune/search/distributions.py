"""A resolved parameter as Optuna sees it, and its values there and back."""

from __future__ import annotations

import json
from typing import Union

from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from autotune.job.space_resolution import ResolvedParameter
from autotune.records import Value

Choice = Union[None, bool, int, float, str]
"""What Optuna takes as a categorical choice."""

Shape = Union[CategoricalDistribution, IntDistribution, FloatDistribution]

_JSON_MARK = "json:"


def distribution(parameter: ResolvedParameter) -> Shape:
    """Optuna's distribution of `parameter`, the user's own value included."""
    if parameter.kind == "categorical":
        return CategoricalDistribution([to_choice(choice) for choice in parameter.choices])
    assert parameter.low is not None
    assert parameter.high is not None
    if parameter.kind == "int":
        step = 1 if parameter.log else int(parameter.step or 1)
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
    step_float = None if parameter.log else parameter.step
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=step_float)


def to_choice(value: Value) -> Choice:
    """`value` as Optuna can store it: lists and mappings become marked JSON text."""
    if isinstance(value, (list, dict)):
        return _JSON_MARK + json.dumps(value, sort_keys=True)
    return value


def from_choice(choice: Choice) -> Value:
    """The inverse of `to_choice`."""
    if isinstance(choice, str) and choice.startswith(_JSON_MARK):
        value: Value = json.loads(choice[len(_JSON_MARK) :])
        return value
    return choice
