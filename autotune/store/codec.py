"""Records as JSON text and back, without loss.

JSON has no NaN and no infinity, and SQLite's JSON functions refuse Python's spelling of them; here
they are `{"$float": "nan"}`. A key that starts with `$` gets a second one, so nothing is ambiguous.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from autotune.forecast.rejection import Judgement, PhaseForecast
from autotune.records import (
    Arm,
    AttemptEnd,
    Candidate,
    Comparison,
    Failure,
    FailureGroup,
    Figures,
    FinishOutcome,
    FinishPlan,
    FinishVerdict,
    Outcome,
    StageName,
    StageResult,
    Verdict,
)


def to_text(value: Any) -> str:
    """A JSON value or a record as compact ASCII text; tuples become lists, enums their values."""
    return json.dumps(_escaped(value), separators=(",", ":"))


def from_text(text: str) -> Any:
    """The JSON value that `to_text` was given; a record comes back as a mapping of its fields."""
    return _unescaped(json.loads(text))


def candidate_from_text(text: str) -> Candidate:
    """The candidate that `to_text` was given."""
    return Candidate(**from_text(text))


def verdict_from_text(text: str) -> Verdict:
    """The verdict that `to_text` was given."""
    value = from_text(text)
    failure = value["failure"]
    if failure is not None:
        failure = Failure(**{**failure, "group": FailureGroup(failure["group"])})
    return Verdict(
        outcome=Outcome(value["outcome"]),
        figures=Figures(**value["figures"]),
        failure=failure,
        warnings=tuple(value["warnings"]),
        signs=tuple(value.get("signs", ())),
        reason=value.get("reason", ""),  # absent in databases of before there was one
    )


def judgement_from_text(text: str) -> Judgement:
    """The forecast's judgement that `to_text` was given."""
    value = from_text(text)
    return Judgement(**{**value, "phases": tuple(PhaseForecast(**phase) for phase in value["phases"])})


def end_from_text(text: str) -> AttemptEnd:
    """The end that `to_text` was given."""
    value = from_text(text)
    return AttemptEnd(**{**value, "left_behind": tuple(value["left_behind"]), "tail": tuple(value["tail"])})


def stage_result_from_text(text: str) -> StageResult:
    """The stage result that `to_text` was given."""
    value = from_text(text)
    figures = {name: value[name] and Figures(**value[name]) for name in ("baseline", "best_figures")}
    return StageResult(
        **{**value, **figures, "stage": StageName(value["stage"]), "accepted": tuple(value["accepted"])}
    )


def finish_plan_from_text(text: str) -> FinishPlan:
    """The plan that `to_text` was given."""
    value = from_text(text)
    names = ("looks", "alphas", "after", "goals", "seeds")
    tuples = {name: tuple(value[name]) for name in names if name in value}
    return FinishPlan(**{**value, **tuples})


def finish_verdict_from_text(text: str) -> FinishVerdict:
    """The verdict that `to_text` was given."""
    value = from_text(text)
    found = [Comparison(**{**one, "outcome": FinishOutcome(one["outcome"])}) for one in value["comparisons"]]
    return FinishVerdict(
        **{
            **value,
            "outcome": FinishOutcome(value["outcome"]),
            "reference": None if value["reference"] is None else Arm(value["reference"]),
            "comparisons": tuple(found),
            "seeds": tuple(value["seeds"]),
            "notes": tuple(value["notes"]),
        }
    )


def _escaped(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if is_dataclass(value):
        return {field.name: _escaped(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {f"${key}" if key.startswith("$") else key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def _unescaped(value: Any) -> Any:
    if isinstance(value, list):
        return [_unescaped(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$float"}:
        return float(value["$float"])
    return {key.removeprefix("$"): _unescaped(item) for key, item in value.items()}
