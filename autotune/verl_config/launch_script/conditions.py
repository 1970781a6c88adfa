"""Decides `[ ... ]`, `[[ ... ]]` and `(( ... ))` where the script's own text decides them."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from autotune.verl_config.launch_script.arithmetic import Undecided
from autotune.verl_config.launch_script.expansion import Expansion
from autotune.verl_config.launch_script.parameters import matches
from autotune.verl_config.launch_script.syntax import Script
from autotune.verl_config.launch_script.text import is_known, reasons, shown

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


class Conditions:
    """Tests of one script, with one set of variables."""

    def __init__(self, script: Script, expansion: Expansion) -> None:
        """`expansion` works out the words that are compared."""
        self._script = script
        self._expansion = expansion

    def test(self, node: Node) -> bool:
        """Whether a test_command or `(( ... ))` holds; Undecided where the text does not tell."""
        if node.type == "compound_statement":
            return self._expansion.number(node) != 0
        inner = [child for child in node.named_children if child.type != "comment"]
        if len(inner) != 1:
            raise Undecided(f"`{self._script.text(node)}` is not worked out")
        if self._script.text(node).startswith("(("):
            return self._expansion.number(inner[0]) != 0
        return self._holds(inner[0], patterns=self._script.text(node).startswith("[["))

    def _holds(self, node: Node, *, patterns: bool) -> bool:
        kind = node.type
        if kind == "parenthesized_expression":
            return self._holds(node.named_children[0], patterns=patterns)
        if kind == "negated_command" or (kind == "unary_expression" and node.children[0].type == "!"):
            return not self._holds(node.children[-1], patterns=patterns)
        if kind == "unary_expression":
            return self._unary(node)
        if kind == "binary_expression":
            return self._binary(node, patterns=patterns)
        return bool(self._text(node))

    def _unary(self, node: Node) -> bool:
        sign = self._script.text(node.children[0])
        if sign == "-v":
            raise Undecided(f"`{self._script.text(node)}` is not worked out")
        if sign not in ("-z", "-n"):
            raise Undecided(f"`{self._script.text(node)}` looks at files")
        operand = node.children[-1]
        only = self._script.text(operand).strip('"')
        if re.fullmatch(r"\$\{?\w+\}?", only) and not self._expansion.is_set(only.strip("${}")):
            return sign == "-z"
        return bool(self._text(operand)) == (sign == "-n")

    def _binary(self, node: Node, *, patterns: bool) -> bool:
        left, right = node.children[0], node.children[-1]
        sign = "".join(self._script.text(child) for child in node.children[1:2])
        if len(node.children) != 3:
            raise Undecided(f"`{self._script.text(node)}` is not worked out")
        if sign in ("&&", "-a"):
            return self._holds(left, patterns=patterns) and self._holds(right, patterns=patterns)
        if sign in ("||", "-o"):
            return self._holds(left, patterns=patterns) or self._holds(right, patterns=patterns)
        if sign in _NUMBERS:
            return _NUMBERS[sign](self._number(left), self._number(right))
        if sign not in ("=", "==", "!="):
            raise Undecided(f"`{self._script.text(node)}` is not worked out")
        quoted = right.type in ("string", "raw_string", "ansi_c_string")
        wanted, value = self._text(right), self._text(left)
        same = matches(value, wanted) if patterns and not quoted else value == wanted
        return same == (sign != "!=")

    def _text(self, node: Node) -> str:
        text = self._expansion.value(node)
        if not is_known(text):
            raise Undecided(reasons(text))
        return shown(text)

    def _number(self, node: Node) -> int:
        text = self._text(node).strip()
        if not re.fullmatch(r"[-+]?\d+", text):
            raise Undecided(f"`{text}` is no number")
        return int(text)
