"""Errors of pydantic in a user's words: what stands there, what may stand there, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from autotune.errors import Fault
from autotune.job.yaml_source import KeyPath, YamlSource, dotted

_TYPES: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "mapping_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "invalid-json-value": "a plain YAML value",
    "finite_number": "a finite number",
    "recursion_loop": "a value that does not contain itself",
    "string_pattern_mismatch": "up to 64 letters, digits, `.`, `_` and `-`, a letter or digit first",
}
_LIMITS: Mapping[str, str] = {
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number from {ge:g} on",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number up to {le:g}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} entries at most",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
    "refused": "{allowed}",
}


def model_faults(
    error: ValidationError, model: type[BaseModel], source: YamlSource, at: KeyPath = ()
) -> list[Fault]:
    """One fault for each wrong place of `source`; the branches of a union are told together.

    Args:
        error: What validating the value at `at` as `model` raised.
        model: The model that was asked for.
        source: The file, for lines and for what stands there.
        at: Where in the file the validated value begins.
    """
    value = value_at(source.value, at)
    places: dict[KeyPath, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        places.setdefault(_real_path(value, details), []).append(details)
    return [_fault(model, source, at, path, details) for path, details in places.items()]


def value_at(value: Any, path: KeyPath) -> Any:
    """What stands at `path`, None where nothing does."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names for a message, cut after `most`."""
    names = list(names)
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def shown(value: Any) -> str:
    """A value as a user would recognise it, on one line and not too long."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _real_path(value: Any, details: ErrorDetails) -> KeyPath:
    """Where pydantic found it, without the labels that it adds for union branches."""
    path: list[str | int] = []
    location = details["loc"]
    for index, part in enumerate(location):
        is_there = (
            part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        )
        if is_there:
            path.append(part)
            value = value_at(value, (part,))
        elif index == len(location) - 1 and details["type"] == "missing":
            path.append(part)
    return tuple(path)


def _fault(
    model: type[BaseModel], source: YamlSource, at: KeyPath, path: KeyPath, errors: Sequence[ErrorDetails]
) -> Fault:
    first = errors[0]
    place = {"where": source.place((*at, *path)), "key": dotted((*at, *path))}
    section = _model_at(model, value_at(source.value, at), path[:-1])
    if first["type"] == "extra_forbidden":
        return _unknown_key(place, str(path[-1]), section)
    if first["type"] == "missing":
        return Fault(
            **place,
            found="nothing",
            allowed=_meaning(section, str(path[-1])),
            next_step=f"add `{path[-1]}:`"
            + (f" under `{dotted((*at, *path[:-1]))}`" if (*at, *path[:-1]) else ""),
        )
    if first["type"] == "union_tag_not_found":
        place["key"] = dotted((*at, *path, "kind"))
        return Fault(**place, found="nothing", allowed="int, float or categorical", next_step="add `kind:`")
    found = shown(first["input"])
    if first["type"] == "refused":
        place["key"] = dotted((*at, *path, *first["ctx"]["within"]))
        found = str(first["ctx"]["found"])
    if first["type"] == "union_tag_invalid":
        place["key"] = dotted((*at, *path, "kind"))
        found = shown(first["ctx"]["tag"])
    allowed = list(dict.fromkeys(_allowed(details) for details in errors))
    return Fault(**place, found=found, allowed=" or ".join(allowed), next_step=_next_step(first))


def _unknown_key(place: Mapping[str, str], name: str, section: type[BaseModel] | None) -> Fault:
    known = list(section.model_fields) if section else []
    meant = nearest(name, known)
    return Fault(
        **place,
        found=f"the unknown key `{name}`",
        allowed=listed(known),
        next_step=f"did you mean `{meant}`?" if meant else "remove it, or move it to where it belongs",
    )


def _allowed(details: ErrorDetails) -> str:
    """What may stand there, from one pydantic error."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    return details["msg"]


_CORRECT = "correct the value"


def _next_step(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    if details["type"] == "refused":
        return str(context["next_step"]) or _CORRECT
    if details["type"] in ("literal_error", "union_tag_invalid"):
        expected = str(context.get("expected") or context.get("expected_tags")).replace("'", "")
        meant = nearest(
            str(context.get("tag") or details["input"]), expected.replace(" or ", ", ").split(", ")
        )
        return f"did you mean `{meant}`?" if meant else _CORRECT
    if details["type"] == "string_type" and isinstance(details["input"], (int, float)):
        return f'write "{shown(details["input"])}" in quotes'
    return _CORRECT


def _meaning(section: type[BaseModel] | None, name: str) -> str:
    """First sentence of a field's documentation."""
    info = section.model_fields.get(name) if section else None
    if info is None:
        return "a value"
    if info.description:
        return info.description.split("\n")[0]
    if info.annotation is not None and isinstance(info.annotation, type) and info.annotation.__doc__:
        return f"a section: {info.annotation.__doc__.splitlines()[0]}"
    return "a value"


def _model_at(model: type[BaseModel], value: Any, path: KeyPath) -> type[BaseModel] | None:
    """The model of the section at `path`, None where the path leaves the models."""
    candidates: list[Any] = [model]
    for part in path:
        value = value_at(value, (part,))
        following: list[Any] = []
        for candidate in candidates:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                info = candidate.model_fields.get(str(part))
                following += _parts(info.annotation) if info else []
            else:
                following += [inner for argument in get_args(candidate) for inner in _parts(argument)]
        candidates = following
    models = [part for part in candidates if isinstance(part, type) and issubclass(part, BaseModel)]
    kind = value.get("kind") if isinstance(value, dict) else None
    tagged = [one for one in models if kind in get_args(_annotation(one, "kind"))]
    return next(iter(tagged or models), None)


def _annotation(model: type[BaseModel], name: str) -> Any:
    info = model.model_fields.get(name)
    return info.annotation if info else None


def _parts(annotation: Any) -> list[Any]:
    """The alternatives of an annotation: union members, with Annotated taken off; a dict stays whole."""
    if isinstance(annotation, type) or not get_args(annotation):
        return [annotation]
    if getattr(annotation, "__origin__", None) in (dict, list, tuple):
        return [annotation]
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        arguments = arguments[:1]
    return [part for argument in arguments for part in _parts(argument)]
