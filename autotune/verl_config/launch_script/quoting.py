"""What backslashes mean: outside quotes, inside double quotes, inside `$'...'`."""

from __future__ import annotations

import re

from autotune.verl_config.launch_script.text import Text, known

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([\\\"$`\n])")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "e": "\x1b"}


def unescaped(text: str) -> Text:
    """Unquoted characters: a backslash takes the next one literally, and a newline away."""
    return known(_ESCAPED.sub(lambda match: "" if match[1] == "\n" else match[1], text))


def unescaped_in_quotes(text: str) -> Text:
    """Characters in double quotes, where few backslashes mean anything."""
    return known(_ESCAPED_IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text))


def ansi(text: str) -> Text:
    """The inside of `$'...'`, with C's escapes."""
    return known(_ESCAPED.sub(lambda match: _ANSI.get(match[1], match[0]), text))


def shortened(text: str) -> str:
    """One line of at most 60 characters, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
