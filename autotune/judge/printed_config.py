"""The configuration that a log shows: verl's own print of it, and overrides in commands and errors.

verl prints `pprint(OmegaConf.to_container(config, resolve=True))` when it starts: a nested mapping
over about a thousand lines, each with the writer's prefix. Keys are placed by their column, so that
missing, cut and foreign lines cost only themselves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from autotune.judge.console_line import ConsoleLine
from autotune.records import Value

_OPENS = re.compile(r"^\{'(?P<section>[\w-]+)': ")
_CONTINUES = re.compile(r"^ +'[^']+': |^ +[\]}'\"\d\[{]")
_KEY = re.compile(r"'(?P<key>[^']*)': ")
_SIMPLE = re.compile(r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\[\]{}]*\]|\{\}|[^,{}\[\]'\"]+)")
_TOP_SECTIONS = frozenset({"actor_rollout_ref", "algorithm", "data", "trainer", "critic"})
_OVERRIDES_OF_ERROR = re.compile(r"^Error executing job with overrides: (?P<list>\[.*)$")
_COMMAND = re.compile(r"\bpython[\d.]* .*-m \S*verl\S*")
_OVERRIDE = re.compile(
    r"(?:^|[\s'\"])(?P<key>\+{0,2}[A-Za-z_][\w@/]*(?:\.[\w-]+)+)=(?P<value>\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s'\"\\]*)"
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
_LARGEST = 20_000
_MISSES = 300
"""Other lines of the same writer after which its print is over."""


class PrintedConfig:
    """Collects what the lines of one run say of its configuration."""

    def __init__(self) -> None:
        self._printed: dict[str, Value] = {}
        self._overrides: dict[str, Value] = {}
        self._writer: str | None = None
        self._stack: list[tuple[int, str]] = []
        self._breaks_at = 0
        self._misses = 0

    @property
    def values(self) -> Mapping[str, Value]:
        """Dotted keys with their values; a resolved value that verl printed wins over an override's text."""
        return {**self._overrides, **self._printed}

    def may_tell(self, text: str) -> bool:
        """A cheap look whether a raw line is worth taking apart."""
        return (
            (self._writer is not None and "'" in text)
            or "{'" in text
            or " -m " in text
            or "overrides: " in text
        )

    def see(self, line: ConsoleLine) -> None:
        """Takes in one line of the log."""
        if len(self._printed) + len(self._overrides) > _LARGEST:
            return
        text = line.text
        if "=" in text:
            self._see_overrides(text)
        opens = _OPENS.match(text)
        if opens is not None and opens["section"] in _TOP_SECTIONS:
            self._writer, self._stack, self._misses = line.source, [(1, "")], 0
        elif line.source != self._writer:
            return
        elif self._breaks_at and text.startswith("'"):
            # pprint broke the line after a brace; the columns go on counting.
            text = " " * self._breaks_at + text
        elif not _CONTINUES.match(text):
            self._misses += 1
            if self._misses > _MISSES:
                self._writer = None
            return
        self._printed.update(_settings(text, self._stack))
        self._breaks_at = len(text) if text.endswith("{") else 0

    def _see_overrides(self, text: str) -> None:
        error = _OVERRIDES_OF_ERROR.match(text)
        if error is None and not _COMMAND.search(text):
            return
        for found in _OVERRIDE.finditer(error["list"] if error else text):
            self._overrides[found["key"].lstrip("+")] = _of_override(found["value"])


def _settings(text: str, stack: list[tuple[int, str]]) -> Iterator[tuple[str, Value]]:
    """The leaves on one printed line; `stack` holds the open sections with the column of their keys.

    pprint puts the keys of one mapping below each other, so a key in a column of no open section has
    lost the line of its own section and is passed over.
    """
    at, is_first = 0, True
    while (key := _KEY.search(text, at)) is not None:
        if is_first and not _close_to(stack, key.start()):
            return
        at, is_first = key.end(), False
        if text.startswith("{", at) and not text.startswith("{}", at):
            stack.append((at + 1, key["key"]))
            continue
        value = _SIMPLE.match(text, at)
        if value is None:
            continue
        at = value.end()
        ends = text[at : at + 1] in (",", "}", "")
        parsed = _literal(value[0].strip()) if ends else None
        if parsed is not None:
            yield ".".join([*(name for _, name in stack[1:]), key["key"]]), parsed[0]
        at = _after(text, at, stack)


def _close_to(stack: list[tuple[int, str]], column: int) -> bool:
    """Closes the sections deeper than the one whose keys stand in this column; False where there is none."""
    depth = next((depth for depth in range(len(stack), 0, -1) if stack[depth - 1][0] == column), None)
    if depth is None:
        return False
    del stack[depth:]
    return True


def _after(text: str, at: int, stack: list[tuple[int, str]]) -> int:
    """Closes the sections whose braces follow a value."""
    while text.startswith("}", at):
        if len(stack) > 1:
            stack.pop()
        at += 1
    return at


def _literal(text: str) -> tuple[Value] | None:
    """The value of a Python literal, None where it is cut off or none."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return (value,) if isinstance(value, (bool, int, float, str, list, dict, type(None))) else None


def _of_override(text: str) -> Value:
    """A value of Hydra's command line, as far as levers need it."""
    bare = text.strip("'\"")
    lowered = bare.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("null", "none", "~"):
        return None
    if _NUMBER.match(bare):
        return int(bare) if bare.lstrip("+-").isdigit() else float(bare)
    return bare
