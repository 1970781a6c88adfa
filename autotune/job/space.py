"""A stage's search space as data: parameters keyed by verl's dotted names.

A bound or choice may be an expression over the job's facts (`job/facts.py`), such as
`sequence_tokens * 8`; `job/space_resolution.py` turns it into numbers for one job.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Expression = Union[int, float, str]
"""A number, or an arithmetic expression over the job's facts."""


class Parameter(BaseModel):
    """What all kinds of parameter have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    when: str | None = None
    """Condition over facts and earlier parameters (`use_dynamic_bsz`, `not use_dynamic_bsz`); None: always.

    Names in it are facts or the last part of an earlier parameter's dotted key.
    """
    default: JsonValue = None
    """What verl takes where neither the job nor verl's own configuration names the key."""
    also: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Further verl keys that always take the same value."""
    why: str = ""
    """One sentence for the report."""


class IntParameter(Parameter):
    """Whole numbers from `low` to `high`, both included."""

    kind: Literal["int"]
    low: Expression
    """Smallest value: a number, or an expression over the job's facts."""
    high: Expression
    """Largest value: a number, or an expression over the job's facts."""
    step: Annotated[int, Field(ge=1)] = 1
    log: bool = False


class FloatParameter(Parameter):
    """Real numbers from `low` to `high`, both included."""

    kind: Literal["float"]
    low: Expression
    """Smallest value: a number, or an expression over the job's facts."""
    high: Expression
    """Largest value: a number, or an expression over the job's facts."""
    step: Annotated[float, Field(gt=0.0)] | None = None
    log: bool = False


class CategoricalParameter(Parameter):
    """One of `choices`, in order from the safest on (the order is the checklist's)."""

    kind: Literal["categorical"]
    choices: Annotated[list[JsonValue], Field(min_length=1)]
    """A string that starts with `=` is an expression: `=sequence_tokens * 2`."""
    keep: str | None = None
    """Condition over facts and `value`: a choice that does not meet it in this job is left out."""


AnyParameter = Annotated[
    Union[IntParameter, FloatParameter, CategoricalParameter], Field(discriminator="kind")
]


class SearchSpace(BaseModel):
    """The parameters of one stage, in the checklist's order."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    name: str
    """What the space is called in reports."""
    description: str = ""
    parameters: Annotated[dict[str, AnyParameter], Field(min_length=1)]
    """verl's dotted keys to int, float or categorical parameters."""
