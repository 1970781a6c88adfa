"""The nested configuration and its dotted form: resolving, flattening, kinds of values, YAML text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationToMissingValueError,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from autotune.errors import Fault
from autotune.records import Value

_MISSING = "???"
_FASTEST: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's where PyYAML was built with it: the same text in a sixth of the time."""


class _Dumper(_FASTEST):  # type: ignore[misc]
    """Quotes text that OmegaConf's loader would read as a number, such as `1e-6`; YAML 1.1 would not."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal lists are written out each time: verl's reader of the file is a person too."""
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


@dataclass(frozen=True)
class Unresolved:
    """An interpolation that could not be resolved when the configuration was composed."""

    place: str
    """Dotted key, with `[index]` inside lists."""
    text: str
    why: str
    for_good: bool
    """False where verl may still resolve it: a missing value, a running Hydra's own resolver."""


def resolve(source: DictConfig) -> tuple[dict[str, Value], list[Unresolved]]:
    """Plain values of `source`, and the interpolations that stay as text in them."""
    unresolved: list[Unresolved] = []
    tree = _plain(source, "", unresolved)
    assert isinstance(tree, dict)
    return tree, unresolved


def to_yaml(tree: Mapping[str, Value], interpolations: frozenset[str]) -> str:
    """YAML text of a resolved tree; a `${` is literal but at the places named in `interpolations`."""
    plain = _escaped(tree, "", interpolations)
    text = yaml.dump(plain, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return str(text)


def _plain(node: DictConfig | ListConfig, place: str, unresolved: list[Unresolved]) -> Any:
    if isinstance(node, ListConfig):
        return [_child(node, index, f"{place}[{index}]", unresolved) for index in range(len(node))]
    return {key: _child(node, key, _join(place, key), unresolved) for key in node}


def _child(node: Any, key: Any, place: str, unresolved: list[Unresolved]) -> Any:
    if OmegaConf.is_missing(node, key):
        return _MISSING
    try:
        value = node[key]
    except OmegaConfBaseException as error:
        text = str(node._get_node(key)._value())
        for_good = isinstance(error, (InterpolationKeyError, UnsupportedInterpolationType))
        missing = isinstance(error, InterpolationToMissingValueError)
        unresolved.append(Unresolved(place, text, str(error), for_good and not missing))
        return text
    return _plain(value, place, unresolved) if isinstance(value, (DictConfig, ListConfig)) else value


def _escaped(value: Any, place: str, interpolations: frozenset[str]) -> Any:
    r"""`\${` for every literal `${`, which OmegaConf would read as an interpolation."""
    if isinstance(value, Mapping):
        return {key: _escaped(inner, _join(place, key), interpolations) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner, f"{place}[{index}]", interpolations) for index, inner in enumerate(value)]
    if isinstance(value, str) and "${" in value and place not in interpolations:
        return re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + r"\${", value)
    return value


def _join(place: str, key: Any) -> str:
    return f"{place}.{key!s}" if place else str(key)


def flatten(tree: Mapping[str, Value]) -> dict[str, Value]:
    """Leaves by dotted key; an empty mapping is a leaf, so is every list."""
    return dict(_leaves(tree, ""))


def _leaves(tree: Mapping[str, Value], prefix: str) -> Iterator[tuple[str, Value]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def interpolated(source: DictConfig, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys whose values are interpolations, with their text."""
    for name in source:
        key, node = f"{prefix}{name!s}", source._get_node(name)
        if node is not None and node._is_interpolation():
            yield key, str(node._value())
        elif isinstance(node, DictConfig) and not node._is_none() and not node._is_missing():
            yield from interpolated(node, f"{key}.")


def sections(source: DictConfig, prefix: str = "") -> Iterator[str]:
    """Dotted keys of all mappings in `source` that have keys of their own."""
    for name in source:
        node = source._get_node(name)
        if isinstance(node, DictConfig) and not (node._is_none() or node._is_interpolation()) and len(node):
            yield f"{prefix}{name!s}"
            yield from sections(node, f"{prefix}{name!s}.")


def spread(key: str, value: Value, known_sections: frozenset[str]) -> Iterator[tuple[str, Value]]:
    """`key: {a: 1}` as `key.a: 1` where `key` is a section of verl's, as Hydra merges it."""
    if isinstance(value, dict) and value and key in known_sections:
        for name, inner in value.items():
            yield from spread(f"{key}.{name}", inner, known_sections)
    else:
        yield key, value


def as_verl_reads(value: Value, default: Value) -> Value:
    """`1e-6` written as text where verl has a number: YAML 1.1 reads it as text, verl's loader does not."""
    if isinstance(value, str) and is_number(default) and not _is_interpolated(value):
        number = _number(value)
        return value if number is None else number
    return value


def kind_faults(where: str, key: str, value: Value, default: Value) -> list[Fault]:
    """At most one fault, where verl has a switch or a number and the value can be neither."""
    if value is None or (isinstance(value, str) and (_is_interpolated(value) or value == _MISSING)):
        return []
    if isinstance(default, bool) and not isinstance(value, (bool, int)):
        return [_kind_fault(where, key, value, "true or false")]
    if is_number(default) and not is_number(as_verl_reads(value, default)) and not isinstance(value, bool):
        return [_kind_fault(where, key, value, "a number")]
    return []


def is_number(value: Value) -> bool:
    """True for int and float; bool is a switch, not a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_interpolated(value: str) -> bool:
    return "${" in value


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _kind_fault(where: str, key: str, value: Value, allowed: str) -> Fault:
    kind = "text" if isinstance(value, str) else type(value).__name__
    return Fault(
        where=where, key=key, found=f"{value!r} ({kind})", allowed=allowed, next_step="correct the value"
    )
