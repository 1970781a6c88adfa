"""`${name...}`: what a parameter expansion makes of a known value."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

Transform = Callable[[str, str, str], str]
"""Value, first operand and second operand to the expansion's value."""


def transform(sign: str, value: str, first: str, second: str) -> str | None:
    """The value after `${name SIGN first / second}`; None for an operator that is not known."""
    if sign in ("#", "##", "%", "%%"):
        return _without_end(value, first, from_front=sign[0] == "#", longest=len(sign) == 2)
    if sign in ("/", "//", "/#", "/%"):
        return _replaced(value, first, second, sign)
    cases: dict[str, Callable[[str], str]] = {
        ",,": str.lower,
        "^^": str.upper,
        ",": lambda text: text[:1].lower() + text[1:],
        "^": lambda text: text[:1].upper() + text[1:],
    }
    return cases[sign](value) if sign in cases and not first else None


def substring(value: str, start: int, length: int | None) -> str:
    """`${value:start:length}`; a negative length counts from the end."""
    begin = max(len(value) + start, 0) if start < 0 else start
    if length is None:
        return value[begin:]
    return value[begin : len(value) + length] if length < 0 else value[begin : begin + length]


def matches(text: str, pattern: str) -> bool:
    """Whether a shell pattern (`*`, `?`, `[...]`) matches the whole text."""
    return _pattern(pattern).fullmatch(text) is not None


def _without_end(value: str, pattern: str, *, from_front: bool, longest: bool) -> str:
    whole = _pattern(pattern)
    lengths = range(len(value), -1, -1) if longest else range(len(value) + 1)
    for length in lengths:
        part = value[:length] if from_front else value[len(value) - length :]
        if whole.fullmatch(part):
            return value[length:] if from_front else value[: len(value) - length]
    return value


def _replaced(value: str, pattern: str, new: str, sign: str) -> str:
    if not pattern:
        return value
    text = fnmatch.translate(pattern).removesuffix(r"\Z").removesuffix(r"\z")
    if sign == "/#":
        text = rf"\A{text}"
    elif sign == "/%":
        text = rf"{text}\Z"
    return re.sub(text, lambda _: new, value, count=0 if sign == "//" else 1)


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(re.sub(r"\\(.)", r"[\1]", pattern)), re.DOTALL)
