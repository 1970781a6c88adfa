"""Whose turn it is: which of the open trials starts next, and whether another one is asked for. Pure.

Two things make trials wait. One is size: a trial of four GPUs waits until four are free, while smaller
ones go past it into what is free meanwhile. The other is the cold key: as long as a warm session waits
whose key no open trial has, the stage is asked for further candidates, up to a batch, and one that the
session can take goes first. Nothing is ever dropped or chosen anew for it: the candidates are those that
strategy and sampler proposed, and only their order changes, so that no key is favoured by what is found.
And nothing waits for ever: a trial that was passed `PASSED_AT_MOST` times is next, and nobody starts
before it.

A sampler that learns from each result loses by a batch. So none is made where it cannot pay: all keys of
the space are live (the usual case: then any session takes any candidate), sessions are off, no session
waits, or an open trial fits one already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Union

PASSED_AT_MOST = 4
"""Trials that may start before one that was opened earlier."""
_WAITING_FOR_ROOM = 2
"""Open trials, none of which fits, beyond which no further one is asked for to fill the free GPUs."""


@dataclass(frozen=True)
class Open:
    """A trial that has not started."""

    gpus: int
    session_key: str | None
    """Its cold key; None: only a process of its own will do."""
    passed: int = 0
    """Trials opened later that started before it."""


@dataclass(frozen=True)
class Start:
    """Start the open trial at this place of the line."""

    place: int


@dataclass(frozen=True)
class Ask:
    """Ask the stage for one more candidate."""


@dataclass(frozen=True)
class Hold:
    """Start nothing until something ends."""


Turn = Union[Start, Ask, Hold]


def next_turn(
    line: Sequence[Open],
    *,
    fits: Callable[[int], bool],
    warm: Set[str],
    batch: int,
    may_ask: bool,
    passed_at_most: int = PASSED_AT_MOST,
) -> Turn:
    """What to do now.

    Args:
        line: The open trials in the order in which they were opened.
        fits: Whether an attempt of so many GPUs could start now.
        warm: Cold keys of the sessions that wait.
        batch: Open trials among which a session looks for one of its key; 1: it takes what comes.
        may_ask: Whether the stage can have more candidates, and GPUs are free for the smallest.
        passed_at_most: 0: strictly in order.
    """
    if line and line[0].passed >= passed_at_most:
        return Start(0) if fits(line[0].gpus) else Hold()
    fitting = [place for place, trial in enumerate(line) if fits(trial.gpus)]
    for place in fitting:
        if line[place].session_key in warm:
            return Start(place)
    wanted = (batch if warm else 1) if fitting else _WAITING_FOR_ROOM
    if may_ask and len(line) < wanted:
        return Ask()
    return Start(fitting[0]) if fitting else Hold()
