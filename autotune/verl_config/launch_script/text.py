"""What a piece of shell text stands for: known characters, and parts that only a running shell would know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Piece:
    """A run of characters of an expanded word."""

    text: str
    """The value; where `why` is given, the shell text that stands for it."""
    why: str = ""
    """Why it cannot be known without running the script; empty: it is known."""
    quoted: bool = False
    """Stood in quotes inside an expansion: blanks in it end no word."""


Text = tuple[Piece, ...]
"""One word, or one variable's value."""


def known(text: str) -> Text:
    """A text without unknown parts."""
    return (Piece(text),)


def unknown(text: str, why: str) -> Text:
    """Shell text that cannot be resolved, and why."""
    return (Piece(text, why),)


def is_known(text: Text) -> bool:
    """True where every part is known."""
    return not any(piece.why for piece in text)


def shown(text: Text) -> str:
    """The characters, with shell text in the unknown parts' place."""
    return "".join(piece.text for piece in text)


def reasons(text: Text) -> str:
    """Why the unknown parts are unknown, each reason once."""
    return "; ".join(dict.fromkeys(piece.why for piece in text if piece.why))


@dataclass
class Fields:
    """Builds the words that one word of the script expands to."""

    _done: list[Text] = field(default_factory=list)
    _open: list[Piece] = field(default_factory=list)
    _started: bool = False

    def add(self, text: Text) -> None:
        """Characters that stay together: literal, or from within quotes."""
        self._open += [piece for piece in text if piece.text]
        self._started = True

    def add_split(self, text: Text) -> None:
        """An unquoted expansion: blanks in its known parts end a word."""
        for piece in text:
            if piece.why or piece.quoted:
                self.add((piece,))
                continue
            parts = piece.text.split()
            if piece.text[:1].isspace():
                self._end()
            for index, part in enumerate(parts):
                if index:
                    self._end()
                self.add(known(part))
            if piece.text[-1:].isspace():
                self._end()

    def add_list(self, texts: Iterable[Text]) -> None:
        """`"$@"` or `"${A[@]}"`: each element is a word; the first and last join what stands beside them."""
        for index, text in enumerate(texts):
            if index:
                self._end()
            self.add(text)

    def words(self) -> list[Text]:
        """The words; none where an unquoted expansion is empty."""
        self._end()
        return self._done

    def _end(self) -> None:
        if self._started:
            self._done.append(tuple(self._open))
        self._open, self._started = [], False
