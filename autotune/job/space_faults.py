"""Checks of a search space that need no job: expressions, names, verl's dead keys, contradictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from autotune.errors import Fault, JobFileError
from autotune.job.dead_keys import why_dead
from autotune.job.expressions import ExpressionError, evaluate, names_in, unknown_name
from autotune.job.facts import FACTS
from autotune.job.model_faults import model_faults, nearest, shown, value_at
from autotune.job.space import SearchSpace
from autotune.job.yaml_source import KeyPath, YamlSource, dotted

_VERL_KEY = re.compile(r"\+{0,2}[A-Za-z_][\w@:/-]*(\.[\w@:/-]+)*")


def checked_space(source: YamlSource, at: KeyPath) -> SearchSpace:
    """The search space that stands at `at` in `source`.

    Raises:
        JobFileError: every fault of it.
    """
    raw = value_at(source.value, at)
    faults: list[Fault] = []
    space = None
    try:
        space = SearchSpace.model_validate(raw)
    except ValidationError as error:
        faults += model_faults(error, SearchSpace, source, at)
    parameters = raw.get("parameters") if isinstance(raw, dict) else None
    if isinstance(parameters, dict):
        faults += _meaning_faults(source, (*at, "parameters"), parameters)
    if faults or space is None:
        raise JobFileError(faults)
    return space


def key_fault(source: YamlSource, path: KeyPath, key: str) -> Fault | None:
    """The fault of a text that cannot be a verl key in any release; None if it can."""
    if _VERL_KEY.fullmatch(key):
        return None
    return Fault(
        where=source.place(path),
        key=dotted(path),
        found=f"`{key}`",
        allowed="a dotted verl key such as `data.train_batch_size`, with `+` in front where verl lacks it",
        next_step="write the value after a colon, not after `=`" if "=" in key else "correct the key",
    )


def _meaning_faults(source: YamlSource, at: KeyPath, parameters: dict[Any, Any]) -> list[Fault]:
    """What is wrong with the parameters beyond their shape."""
    faults: list[Fault] = []
    names = set(FACTS)
    users: dict[str, str] = {}
    for key, raw in parameters.items():
        if not isinstance(key, str):
            continue
        path = (*at, key)
        also = raw.get("also") if isinstance(raw, dict) else None
        linked = [other for other in also if isinstance(other, str)] if isinstance(also, list) else []
        for verl_key in (key, *linked):
            faults += _verl_key_faults(source, path, verl_key, users, key)
        if isinstance(raw, dict):
            faults += _parameter_faults(source, path, raw, names)
        names.add(key.rsplit(".", 1)[-1])
    return faults


def _verl_key_faults(
    source: YamlSource, path: KeyPath, verl_key: str, users: dict[str, str], owner: str
) -> Iterable[Fault]:
    """Faults of one key that a parameter sets, its own or one of `also`."""
    malformed = key_fault(source, path, verl_key)
    if malformed is not None:
        yield malformed
        return
    place = {"where": source.place(path), "key": dotted(path)}
    bare = verl_key.lstrip("+")
    reason = why_dead(verl_key)
    if reason is not None:
        yield Fault(
            **place,
            found=f"`{bare}`, which has no effect",
            allowed="keys that verl reads",
            next_step=reason,
        )
    if bare in users:
        yield Fault(
            **place,
            found=f"`{bare}` set by `{users[bare]}` and by `{owner}`",
            allowed="each verl key in one parameter",
            next_step="remove it from one of the two",
        )
    users.setdefault(bare, owner)


def _parameter_faults(
    source: YamlSource, path: KeyPath, raw: Mapping[str, Any], names: set[str]
) -> Iterable[Fault]:
    """Faults of expressions and ranges; what has the wrong type is passed over, the model tells it."""
    facts = set(FACTS)
    for name, known in (("when", names), ("keep", {*facts, "value"}), ("low", facts), ("high", facts)):
        text = raw.get(name)
        if isinstance(text, str):
            yield from _expression_faults(source, (*path, name), text, known)
    choices = raw.get("choices")
    for index, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, str) and choice.startswith("="):
            yield from _expression_faults(source, (*path, "choices", index), choice[1:], facts)
    log = raw.get("log") is True
    yield from _range_faults(source, path, raw.get("low"), raw.get("high"), log=log)
    if log and raw.get("step") is not None:
        yield Fault(
            where=source.place((*path, "step")),
            key=dotted((*path, "step")),
            found=f"step {raw['step']} beside log: true",
            allowed="one of the two",
            next_step="remove `step`, or set `log: false`",
        )


def _range_faults(source: YamlSource, path: KeyPath, low: Any, high: Any, *, log: bool) -> Iterable[Fault]:
    """Faults of bounds that are plain numbers, or expressions without names."""
    plain_low, plain_high = _constant(low), _constant(high)
    if plain_low is not None and plain_high is not None and plain_low > plain_high:
        yield Fault(
            where=source.place((*path, "low")),
            key=dotted((*path, "low")),
            found=f"low {plain_low:g} above high {plain_high:g}",
            allowed="low <= high",
            next_step="swap the two",
        )
    if log and plain_low is not None and plain_low <= 0:
        yield Fault(
            where=source.place((*path, "low")),
            key=dotted((*path, "low")),
            found=f"low {plain_low:g} beside log: true",
            allowed="a number above 0",
            next_step="raise `low`, or set `log: false`",
        )


def _constant(bound: Any) -> float | None:
    """The bound's value where no fact is needed for it."""
    if isinstance(bound, str):
        try:
            bound = evaluate(bound, {}) if not names_in(bound) else None
        except ExpressionError:
            return None
    return bound if isinstance(bound, (int, float)) and not isinstance(bound, bool) else None


def _expression_faults(source: YamlSource, path: KeyPath, text: str, known: set[str]) -> Iterable[Fault]:
    place = {"where": source.place(path), "key": dotted(path)}
    try:
        names = names_in(text)
        if not names:
            evaluate(text, {})
    except ExpressionError as error:
        yield Fault(
            **place,
            found=f"{shown(text)}: `{error.part}`: {error.reason}",
            allowed=error.allowed,
            next_step="correct the expression",
        )
        return
    for name in sorted(names - known):
        meant = nearest(name, known)
        yield Fault(
            **place,
            found=f"{shown(text)}: unknown name `{name}`",
            allowed=unknown_name(name, known).allowed,
            next_step=f"did you mean `{meant}`?" if meant else _CALLER_HINT,
        )


_CALLER_HINT = "use one of these; a `when` may also name a parameter that stands earlier in the file"
