"""Works out words: quotes, variables and their defaults, arrays, arithmetic, tilde."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tree_sitter import Node

from autotune.verl_config.launch_script.arithmetic import Undecided, arithmetic
from autotune.verl_config.launch_script.parameters import substring, transform
from autotune.verl_config.launch_script.quoting import ansi, shortened, unescaped, unescaped_in_quotes
from autotune.verl_config.launch_script.syntax import Script
from autotune.verl_config.launch_script.text import (
    Fields,
    Piece,
    Text,
    is_known,
    known,
    reasons,
    shown,
    unknown,
)
from autotune.verl_config.launch_script.variables import Array, Variables

_DEFAULTS = (":-", "-", ":=", "=", ":+", "+", ":?", "?")
_QUOTED = ("string", "raw_string", "ansi_c_string", "translated_string")
_HOME_FOLDER = re.compile(r"(?P<name>[A-Za-z_]\w*=)?~(?=/|$)")
_MANY = ("@", "*")
_EXPANSIONS = ("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution")


class Expansion:
    """Expands the words of one script with one set of variables."""

    def __init__(self, script: Script, variables: Variables) -> None:
        """`variables` are read, and set by `${name:=default}`."""
        self._script = script
        self._variables = variables

    def words(self, node: Node) -> list[Text]:
        """The words that one word of a command becomes: none, one, or an array's elements."""
        fields = Fields()
        self._add(node, fields, quoted=False)
        words = fields.words()
        return [self._tilde(words[0], self._script.text(node)), *words[1:]] if words else words

    def value(self, node: Node | None) -> Text:
        """The one text that a node becomes where the shell does not split words: assignments, tests."""
        if node is None:
            return ()
        fields = Fields()
        self._add(node, fields, quoted=False, split=False)
        words = fields.words()
        joined: Text = ()
        for index, word in enumerate(words):
            joined = (*joined, *(known(" ") if index else ()), *word)
        return joined

    def assigned(self, node: Node | None) -> Text:
        """The value that an assignment gives."""
        if node is None:
            return ()
        return self._tilde(_unquoted(self.value(node)), self._script.text(node))

    def _tilde(self, text: Text, written: str) -> Text:
        """`~` and `~/x`, unquoted at the beginning (or behind a plain `name=`), are the home folder."""
        match = _HOME_FOLDER.match(written)
        if match is None or not text or text[0].why or not text[0].text.startswith(match[0]):
            return text
        rest = text[0].text[len(match[0]) :]
        home = self._variables.get("HOME", "$HOME")
        return (Piece(match["name"] or ""), *home, Piece(rest), *text[1:])

    def array(self, node: Node) -> Array:
        """The elements of `( ... )`."""
        return [
            word for child in node.named_children if child.type != "comment" for word in self.words(child)
        ]

    def is_set(self, name: str) -> bool:
        """Whether the script knows the variable at this point."""
        return self._variables.is_set(name)

    def number(self, node: Node) -> int:
        """The value of an arithmetic expression; Undecided where the text does not tell it."""
        return arithmetic(self._script, node, self._arithmetic_name, self.value)

    def _add(self, node: Node, fields: Fields, *, quoted: bool, split: bool = True) -> None:
        kind, text = node.type, self._script.text(node)
        if kind in _EXPANSIONS and text[:1].isspace():
            # Inside quotes, the grammar counts blanks before an expansion as its own.
            fields.add(known(text[: len(text) - len(text.lstrip())]))
            text = text.lstrip()
        if kind == "concatenation":
            self._add_parts(node, fields, node.start_byte, node.end_byte, split=split)
        elif kind in ("string", "translated_string"):
            self._add_quoted(node, fields)
        elif kind == "raw_string":
            fields.add(known(text[1:-1]))
        elif kind == "ansi_c_string":
            fields.add(ansi(text[2:-1]))
        elif kind in ("simple_expansion", "expansion"):
            self._add_expansion(node, fields, quoted=quoted, split=split)
        elif kind == "arithmetic_expansion":
            fields.add(self._arithmetic(node))
        elif kind in ("command_substitution", "process_substitution"):
            fields.add(self._printed(node, text))
        elif kind == "brace_expression":
            fields.add(unknown(text, "the shell makes several words of these braces"))
        else:
            fields.add(unescaped(text))

    def _add_parts(self, node: Node, fields: Fields, start: int, end: int, *, split: bool) -> None:
        """Children in order; what the grammar leaves between them is literal."""
        written = self._script.text(node)
        unquoted = "".join(
            self._script.text(child)
            for child in node.children
            if child.type
            not in ("string", "raw_string", "ansi_c_string", "expansion", "arithmetic_expansion")
        )
        if split and re.search(r"(?<!\\)\{[^{}]*,[^{}]*\}", unquoted):
            fields.add(unknown(written, "the shell makes several words of unquoted braces"))
            return
        place = start
        for child in node.children:
            if child.start_byte > place:
                fields.add(unescaped(self._script.between(place, child.start_byte)))
            self._add(child, fields, quoted=False, split=split)
            place = child.end_byte
        if place < end:
            fields.add(unescaped(self._script.between(place, end)))

    def _add_quoted(self, node: Node, fields: Fields) -> None:
        quotes = [child for child in node.children if child.type in ('"', '$"')]
        inside = [child for child in node.children if child.type not in ('"', '$"', "string_content")]
        place = quotes[0].end_byte if quotes else node.start_byte
        end = quotes[-1].start_byte if len(quotes) > 1 else node.end_byte
        if not inside or not _is_empty_list(self, inside, place, end):
            fields.add(())
        for child in inside:
            if child.start_byte > place:
                fields.add(unescaped_in_quotes(self._script.between(place, child.start_byte)))
            self._add(child, fields, quoted=True)
            place = child.end_byte
        if place < end:
            fields.add(unescaped_in_quotes(self._script.between(place, end)))

    def _add_expansion(self, node: Node, fields: Fields, *, quoted: bool, split: bool) -> None:
        many = self.elements_of(node)
        if many is not None and (quoted or split):
            if quoted:
                fields.add_list(many)
            else:
                for index, element in enumerate(many):
                    fields.add_split((*(known(" ") if index else ()), *element))
            return
        value = self._expanded(node)
        if quoted or not split:
            fields.add(value)
        else:
            fields.add_split(value)

    def elements_of(self, node: Node) -> Array | None:
        """The elements of `$@`, `${A[@]}` and their slices; None for any other expansion."""
        written = self._script.text(node).strip()
        match = re.fullmatch(r"\$\{?(@|\*|(?P<name>\w+)\[[@*]\])(?P<rest>[^}]*)\}?", written)
        if match is None:
            return None
        name, rest = match["name"] or "@", match["rest"]
        elements = self._variables.elements(name, written)
        if not rest:
            return elements
        piece = re.fullmatch(r":\s*(\d+)(?::(\d+))?", rest)
        if piece is not None:
            start = int(piece[1]) - (1 if name == "@" else 0)
            elements = elements[max(start, 0) :]
            return elements if piece[2] is None else elements[: int(piece[2])]
        if re.match(r":?[-+]", rest):
            empty = not elements
            if rest.lstrip(":")[0] == "+":
                return [] if empty else self._operand_words(node)
            return self._operand_words(node) if empty else elements
        return [unknown(written, f"`{written}` is not worked out")]

    def _operand_words(self, node: Node) -> Array:
        """`${A[@]+"${A[@]}"}`: the words after the operator."""
        sign = node.child_by_field_name("operator")
        after = [
            child for child in node.named_children if sign is not None and child.start_byte >= sign.end_byte
        ]
        return [word for child in after for word in self.words(child)]

    def _expanded(self, node: Node) -> Text:
        written = self._script.text(node).strip()
        if node.type == "simple_expansion":
            return self._variables.get(written[1:], written)
        children = [child for child in node.children if child.type not in ("${", "}")]
        if children and children[0].type in ("#", "!"):
            return self._prefixed(children, written)
        if not children:
            return unknown(written, f"`{written}` is not worked out")
        target, rest = children[0], children[1:]
        name, value = self._target(target, written)
        if not rest:
            return value
        sign = self._script.text(rest[0])
        operand = rest[1:]
        if sign in _DEFAULTS:
            default = partial(self._operand, operand, rest[0].end_byte)
            return self._with_default(name, value, sign, default, written)
        if not is_known(value):
            return unknown(written, reasons(value))
        return self._transformed(sign, value, operand, rest[0].end_byte, written)

    def _target(self, node: Node, written: str) -> tuple[str, Text]:
        text = self._script.text(node)
        if node.type != "subscript":
            return text, self._variables.get(text, written)
        name = text.partition("[")[0]
        elements = self._variables.elements(name, written)
        try:
            number = self.number(node.named_children[-1])
            return text, elements[number]
        except (Undecided, IndexError):
            return text, unknown(written, f"`{text}` is not known from the script")

    def _prefixed(self, children: list[Node], written: str) -> Text:
        if children[0].type == "#" and len(children) == 2:
            name, _, index = self._script.text(children[1]).partition("[")
            if index[:1] in _MANY:
                return known(str(len(self._variables.elements(name, written))))
            value = self._variables.get(name, written)
            return known(str(len(shown(value)))) if is_known(value) else value
        if children[0].type == "!" and len(children) == 2:
            value = self._variables.get(self._script.text(children[1]), written)
            return self._variables.get(shown(value), written) if is_known(value) else value
        return unknown(written, f"`{written}` is not worked out")

    def _with_default(
        self, name: str, value: Text, sign: str, operand: Callable[[], Text], written: str
    ) -> Text:
        is_set = self._variables.is_set(name) or (bool(value) and is_known(value) and "[" in name)
        if is_set and sign[0] == ":" and is_known(value):
            is_set = bool(shown(value))
        elif is_set and not is_known(value):
            return unknown(written, reasons(value))
        if sign[-1] == "+":
            return operand() if is_set else ()
        if is_set:
            return value
        if sign[-1] == "?":
            return unknown(written, f"{name} has to be given to the script from outside")
        default = operand()
        if sign[-1] == "=" and name.isidentifier():
            self._variables.bindings[name] = _unquoted(default)
        return default

    def _operand(self, nodes: list[Node], start: int) -> Text:
        """The text behind an operator that ends at byte `start`."""
        text: Text = ()
        for node in nodes:
            if node.start_byte > start:
                text = (*text, *known(self._script.between(start, node.start_byte)))
            value = self.value(node)
            if node.type in _QUOTED:
                value = tuple(replace(piece, quoted=True) for piece in value)
            text = (*text, *self._tilde(value, self._script.text(node)))
            start = node.end_byte
        return text

    def _transformed(self, sign: str, value: Text, operand: list[Node], start: int, written: str) -> Text:
        if sign == ":":
            return self._sliced(value, operand, written)
        split = next((i for i, node in enumerate(operand) if self._script.text(node) == "/"), len(operand))
        behind = operand[split].end_byte if split < len(operand) else start
        first, second = self._operand(operand[:split], start), self._operand(operand[split + 1 :], behind)
        if not (is_known(first) and is_known(second)):
            return unknown(written, reasons((*first, *second)))
        changed = transform(sign, shown(value), shown(first), shown(second))
        return unknown(written, f"`{written}` is not worked out") if changed is None else known(changed)

    def _sliced(self, value: Text, operand: list[Node], written: str) -> Text:
        parts = [node for node in operand if self._script.text(node) != ":"]
        try:
            numbers = [self.number(node) for node in parts]
        except Undecided as undecided:
            return unknown(written, str(undecided))
        if len(numbers) not in (1, 2):
            return unknown(written, f"`{written}` is not worked out")
        return known(substring(shown(value), numbers[0], numbers[1] if len(numbers) == 2 else None))

    def _printed(self, node: Node, text: str) -> Text:
        """What a command prints: unknown, but for the shell's own `pwd`."""
        if text.strip("$()` ") == "pwd":
            return self._variables.get("PWD", text)
        why = f"line {self._script.line(node)}: what `{shortened(text)}` prints is known only by running it"
        return unknown(text, why)

    def _arithmetic(self, node: Node) -> Text:
        try:
            return known(str(self.number(node)))
        except Undecided as undecided:
            return unknown(self._script.text(node).strip(), str(undecided))

    def _arithmetic_name(self, name: str) -> Text:
        return self._variables.get(name, f"${name}")


def _unquoted(text: Text) -> Text:
    return tuple(replace(piece, quoted=False) for piece in text)


def _is_empty_list(expansion: Expansion, inside: list[Node], start: int, end: int) -> bool:
    """True for `"$@"` and `"${A[@]}"` without elements, which is no word at all."""
    only = inside[0] if len(inside) == 1 else None
    if only is None or (only.start_byte, only.end_byte) != (start, end):
        return False
    if only.type not in ("simple_expansion", "expansion"):
        return False
    return expansion.elements_of(only) == []
