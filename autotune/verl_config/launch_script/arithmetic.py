"""Shell arithmetic, `$((a * 2))`: whole numbers, with the names' values worked out in turn."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from tree_sitter import Node

from autotune.verl_config.launch_script.syntax import Script, parse
from autotune.verl_config.launch_script.text import Text, is_known, reasons, shown

_LARGEST_SHIFT = 62
_DEEPEST = 20
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)")


class Undecided(Exception):  # noqa: N818, no error: the script is fine
    """A value that the script's text does not tell; the message says why."""


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise Undecided("divides by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _power(left: int, right: int) -> int:
    if not 0 <= right <= _LARGEST_SHIFT:
        raise Undecided("a power too large to work out")
    return int(left**right)


def _shifted(left: int, right: int) -> int:
    if not 0 <= right <= _LARGEST_SHIFT:
        raise Undecided("a shift too large to work out")
    return left << right


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": lambda left, right: left - right * _divided(left, right),
    "**": _power,
    "<<": _shifted,
    ">>": lambda left, right: left >> min(right, _LARGEST_SHIFT) if right >= 0 else 0,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "&&": lambda left, right: int(bool(left) and bool(right)),
    "||": lambda left, right: int(bool(left) or bool(right)),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "!": lambda value: int(not value),
    "~": operator.invert,
}
Lookup = Callable[[str], Text]
Expand = Callable[[Node], Text]


def arithmetic(script: Script, node: Node, lookup: Lookup, expand: Expand, depth: int = 0) -> int:
    """The number an arithmetic expression has.

    `lookup` gives a bare name's value, `expand` that of a `$name` or `${name}` inside.

    Raises:
        Undecided: a part that the script's text does not tell, or that is no number.
    """
    if depth > _DEEPEST:
        raise Undecided("names that refer to each other")

    def inner(child: Node) -> int:
        return arithmetic(script, child, lookup, expand, depth)

    kind, named = node.type, node.named_children
    if kind in ("arithmetic_expansion", "parenthesized_expression", "compound_statement") and len(named) == 1:
        return inner(named[0])
    if kind == "binary_expression" and len(named) == 2:
        sign = script.text(_operator(node))
        if sign not in _BINARY:
            raise Undecided(f"`{sign}` in arithmetic")
        return _BINARY[sign](inner(named[0]), inner(named[1]))
    if kind == "unary_expression" and len(named) == 1:
        sign = script.text(node).strip()[0]
        return _UNARY[sign](inner(named[0])) if sign in _UNARY else _undecided(script, node)
    if kind == "ternary_expression" and len(named) == 3:
        return inner(named[1]) if inner(named[0]) else inner(named[2])
    if kind in ("simple_expansion", "expansion", "command_substitution", "string"):
        return _value(expand(node), lookup, depth)
    text = script.text(node).strip()
    if _NAME.fullmatch(text):
        return _value(lookup(text), lookup, depth)
    return _number(text)


def _operator(node: Node) -> Node:
    sign = node.child_by_field_name("operator")
    return sign if sign is not None else node.children[1]


def _value(text: Text, lookup: Lookup, depth: int) -> int:
    if not is_known(text):
        raise Undecided(reasons(text))
    plain = shown(text).strip()
    if not plain:
        return 0
    if _NUMBER.fullmatch(plain):
        return _number(plain)
    script = parse(f"(( {plain} ))")
    found = script.root.named_children
    if script.root.has_error or len(found) != 1:
        raise Undecided(f"`{plain}` is no number")
    return arithmetic(
        script, found[0], lookup, lambda node: lookup(script.text(node).strip("${}")), depth + 1
    )


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise Undecided(f"`{text}` is no number")
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if digits[:2].lower() == "0x":
        return sign * int(digits, 16)
    octal = len(digits) > 1 and digits[0] == "0"
    try:
        return sign * int(digits, 8 if octal else 10)
    except ValueError:
        raise Undecided(f"`{text}` is no number") from None


def _undecided(script: Script, node: Node) -> int:
    raise Undecided(f"`{script.text(node)}` in arithmetic")
