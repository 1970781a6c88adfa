"""The syntax tree of a script, from tree-sitter's Bash grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())
_INLINE_COMMENT = re.compile(rb"`#[^`\n]*`")
"""The idiom for a comment between continued lines; the grammar reads it to the end of the line."""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True)
class Script:
    """Parsed text; nodes give byte offsets into `source`."""

    source: bytes
    root: Node
    first_line: int = 1

    def text(self, node: Node) -> str:
        """The node as it is written."""
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, end: int) -> str:
        """Source text of a byte range."""
        return self.source[start:end].decode(errors="replace")

    def line(self, node: Node) -> int:
        """1-based line of the node's beginning."""
        return self.first_line + node.start_point[0]


def parse(text: str, first_line: int = 1) -> Script:
    """The tree of a script; parts that are no Bash become ERROR nodes."""
    source = _INLINE_COMMENT.sub(lambda match: b" " * len(match[0]), text.replace("\r\n", "\n").encode())
    return Script(source, Parser(_LANGUAGE).parse(for_the_grammar(source)).root_node, first_line)


def for_the_grammar(source: bytes) -> bytes:
    """The text with each byte beyond ASCII as a dot, so that all offsets stay.

    The grammar's scanner (tree-sitter-bash 0.25.1) looks such characters up in C's table for single bytes;
    now and then the process dies of what lies behind it. To Bash they are letters of a word that
    no name can have, and so is a dot.
    """
    return _NOT_ASCII.sub(b".", source)


def errors(node: Node) -> Iterator[Node]:
    """Nodes that the grammar could not make sense of."""
    if node.type == "ERROR" or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from errors(child)
