"""Overrides as text: for a shell (Hydra's override grammar) and as nested YAML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from omegaconf import OmegaConf

from autotune.records import Value
from autotune.verl_config.free_form import needs_plus

_PLAIN_TEXT = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_NEEDS_BACKSLASH = re.compile(r"([\\()\[\]{}:=, \t])")
_WORDS_OF_THE_GRAMMAR = frozenset({"null", "none", "true", "false", "nan", "inf"})


def hydra_value(value: Value) -> str:
    """`value` in Hydra's override grammar; Hydra's parser gives the same value back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ",".join(hydra_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_name(name)}:{hydra_value(item)}" for name, item in value.items()) + "}"
    return _text(value)


def hydra_overrides(overrides: Mapping[str, Value]) -> list[str]:
    """One Hydra override a key, unquoted for any shell: arguments of a process."""
    return [f"{_key(key)}={hydra_value(value)}" for key, value in overrides.items()]


def shell_overrides(overrides: Mapping[str, Value]) -> list[str]:
    """The same, each quoted as one word of a POSIX shell."""
    return [shlex.quote(text) for text in hydra_overrides(overrides)]


def nested_yaml(overrides: Mapping[str, Value]) -> str:
    """The overrides as nested YAML, keys in the given order, any leading `+` dropped."""
    tree = OmegaConf.create({})
    for key, value in overrides.items():
        OmegaConf.update(tree, key.lstrip("+"), value, merge=True)
    return str(OmegaConf.to_yaml(tree)) if overrides else yaml.safe_dump({})


def _key(key: str) -> str:
    if key.startswith("+") or needs_plus(key):
        return f"++{key.lstrip('+')}"
    return key


def _name(text: Any) -> str:
    """A mapping's key; the grammar has no quotes there, only backslashes."""
    return _NEEDS_BACKSLASH.sub(r"\\\1", str(text))


def _text(text: str) -> str:
    if _PLAIN_TEXT.fullmatch(text) and text.lower() not in _WORDS_OF_THE_GRAMMAR:
        return text
    # A run of backslashes only needs doubling where it meets a quote or the closing quote.
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return f"'{escaped}'"
