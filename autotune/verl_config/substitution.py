"""Which values stand alone in a configuration: nothing else is computed from them.

Composing verl's tree takes a quarter of a second, most of it in interpolations. Trials of a stage
differ in a few values, and most of those no interpolation reads: they are put into a tree that was
composed before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from autotune.records import Value

_NAME = re.compile(r"[A-Za-z_][\w.]*")


def read_names(texts: Iterable[str]) -> frozenset[str]:
    """The last names of all that these interpolations may read, `lr` for `${oc.select:actor.optim.lr}`.

    Only last names, so that relative interpolations (`${..lr}`) and whole sections (`${actor.optim}`) count;
    rather too many than too few.
    """
    return frozenset(name.rstrip(".").rsplit(".", 1)[-1] for text in texts for name in _NAME.findall(text))


def stands_alone(key: str, value: Value, read: frozenset[str]) -> bool:
    """Whether no interpolation can read `key` or a section around it, and `value` is none itself."""
    if isinstance(value, (list, dict)) or (isinstance(value, str) and ("${" in value or value == "???")):
        return False
    return not read.intersection(key.split("."))


def substituted(tree: Mapping[str, Value], key: str, value: Value) -> dict[str, Value]:
    """`tree` with one leaf replaced; what is not on the way to it is shared."""
    name, _, rest = key.partition(".")
    copy = dict(tree)
    inner = copy[name]
    copy[name] = substituted(inner, rest, value) if rest and isinstance(inner, dict) else value
    return copy
