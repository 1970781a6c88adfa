"""YAML as verl reads it, with the line of every key, and every fault of the text named by its place.

Like Hydra's reader it takes `1e-6` for a number and a date for text, and refuses a key given twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import yaml

from autotune.errors import Fault, JobFileError

KeyPath = tuple[Union[str, int], ...]
"""Keys and list positions from the top of a file to one value."""

_FLOAT = re.compile(
    r"""^(?:
    [-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+
    |[-+]?\.[0-9_]+(?:[eE][-+]?[0-9]+)?
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with Hydra's idea of numbers and dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":float", ":timestamp"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


@dataclass(frozen=True)
class YamlSource:
    """A parsed file: its value, and where each key stands in it."""

    where: str
    """The file as the user named it."""
    value: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """1-based line of each key and list item."""
    faults: tuple[Fault, ...] = ()
    """Keys given twice and keys that are no text; the value is usable beside them."""

    def place(self, path: KeyPath) -> str:
        """`file:line` of the key, or of its nearest parent that has a line."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return f"{self.where}:{self.lines[path[:length]]}"
        return self.where


def dotted(path: KeyPath) -> str:
    """A key path for people: `stages.survive.steps`, `verl.overrides[data.train_files][0]`."""
    text = ""
    for part in path:
        if isinstance(part, int) or "." in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def read_yaml(path: Path, what: str) -> YamlSource:
    """The mapping that a YAML file holds.

    Args:
        path: The file.
        what: What it is meant to be, for messages: `job file`.

    Raises:
        JobFileError: missing, unreadable, no text, not YAML (with line and column), or no mapping.
    """
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise JobFileError(_missing(path, what)) from None
    except UnicodeDecodeError as error:
        fault = Fault(
            where=where,
            found=f"a byte that is no UTF-8 at offset {error.start}",
            allowed="UTF-8 text",
            next_step="save the file as UTF-8, or name another one",
        )
        raise JobFileError(fault) from None
    except OSError as error:
        fault = Fault(
            where=where,
            found=error.strerror or str(error),
            allowed=f"a readable {what}",
            next_step="name another file, or make this one readable",
        )
        raise JobFileError(fault) from None
    return parse_yaml(text, where, what)


def parse_yaml(text: str, where: str, what: str) -> YamlSource:
    """As `read_yaml`, for a text already read from `where`."""
    lines: dict[KeyPath, int] = {}
    faults: list[Fault] = []
    try:
        value = _read(text, where, lines, faults)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise JobFileError(_syntax_fault(error, where)) from None
    except RecursionError:
        fault = Fault(
            where=where,
            found="values nested too deep",
            allowed="plain YAML",
            next_step="take the inner values apart",
        )
        raise JobFileError(fault) from None
    if not isinstance(value, dict):
        found = "nothing" if value is None else f"{type(value).__name__} {value!r:.60}"
        fault = Fault(
            where=where,
            found=found,
            allowed=f"a {what}: a mapping of keys to values",
            next_step="write one with `autotune init`" if what == "job file" else "begin with `name:`",
        )
        raise JobFileError([*faults, fault])
    return YamlSource(where=where, value=value, lines=lines, faults=tuple(faults))


def _read(text: str, where: str, lines: dict[KeyPath, int], faults: list[Fault]) -> Any:
    """The text's one document, without the keys that are told as no text."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _walk(node, (), where, lines, faults, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _walk(
    node: yaml.Node,
    path: KeyPath,
    where: str,
    lines: dict[KeyPath, int],
    faults: list[Fault],
    seen: set[int],
) -> None:
    """Note the lines of all keys below `node`; tell those given twice, tell and take out what is no text."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            here: KeyPath = (*path, index)
            lines[here] = item.start_mark.line + 1
            _walk(item, here, where, lines, faults, seen)
    elif isinstance(node, yaml.MappingNode):
        first_lines: dict[str, int] = {}
        pairs, node.value = node.value, []
        for key, value in pairs:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                node.value.append((key, value))
                continue
            if key.tag != "tag:yaml.org,2002:str":
                faults.append(_key_fault(key, path, f"{where}:{line}"))
                continue
            node.value.append((key, value))
            here = (*path, key.value)
            if key.value in first_lines:
                faults.append(_twice_fault(here, f"{where}:{line}", first_lines[key.value]))
            first_lines.setdefault(key.value, line)
            lines[here] = line
            _walk(value, here, where, lines, faults, seen)


def _missing(path: Path, what: str) -> Fault:
    folder = path.parent
    if not folder.is_dir():
        return Fault(
            where=str(path),
            found=f"no folder {folder}",
            allowed=f"an existing {what}",
            next_step="correct the path",
        )
    beside = sorted(other.name for other in folder.glob("*.y*ml"))
    next_step = f"in {folder} there are: {', '.join(beside)}" if beside else "write one with `autotune init`"
    return Fault(where=str(path), found="no such file", allowed=f"an existing {what}", next_step=next_step)


def _syntax_fault(error: Exception, where: str) -> Fault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return Fault(
        where=place,
        found=f"not YAML: {problem}",
        allowed="plain YAML, indented by spaces",
        next_step="mend the text at that line (the cause may stand in the line above)",
    )


def _key_fault(key: yaml.Node, path: KeyPath, place: str) -> Fault:
    shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
    return Fault(
        where=place,
        key=dotted(path),
        found=f"the key {shown!r}, which YAML does not read as text",
        allowed="text as key",
        next_step=f'write "{shown}" in quotes'
        if isinstance(key, yaml.ScalarNode)
        else "write a plain word as the key",
    )


def _twice_fault(path: KeyPath, place: str, first_line: int) -> Fault:
    return Fault(
        where=place,
        key=dotted(path),
        found=f"the key a second time (first in line {first_line})",
        allowed="each key once",
        next_step="remove one of the two",
    )
