"""Folds over a stage's trials that go on from where an earlier view of the same stage was folded.

A strategy is asked after every change, and what it looks for in the trials (the fastest so far, say) was
found in nearly all of them before. The answer is that of a fold from the first trial on; only the work
is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from autotune.ladder.view import StageView, TrialView

State = TypeVar("State")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Folded:
    key: Hashable
    count: int
    """Of the stage's first trials, all of them ended."""
    last: TrialView | None
    """The last of them."""
    state: Any


@dataclass
class Folds:
    """What was folded so far, by name.

    One view of a stage hands it to the next, unless an ended trial before the last one changed.
    """

    _known: dict[str, _Folded] = field(default_factory=dict)
    _found: dict[str, tuple[tuple[TrialView, ...], Any]] = field(default_factory=dict)

    def of(
        self, name: str, trials: tuple[TrialView, ...], find: Callable[[tuple[TrialView, ...]], Found]
    ) -> Found:
        """`find(trials)`, which is asked again only for other trials."""
        known = self._found.get(name)
        if known is None or known[0] != trials:
            known = self._found[name] = (trials, find(trials))
        found: Found = known[1]
        return found

    def over(
        self,
        view: StageView,
        name: str,
        start: State,
        step: Callable[[State, TrialView], State],
        *,
        key: Hashable = None,
    ) -> State:
        """`step` over the view's trials in their order.

        Args:
            view: The stage.
            name: Whose fold it is.
            start: The state before the first trial; a value, as every state is.
            step: The state after one more trial. Trials that still run are folded anew each time.
            key: All that `step` depends on besides the trial.
        """
        trials, known = view.trials, self._known.get(name)
        if known is None or known.key != key or not _begins_with(trials, known):
            known = _Folded(key, 0, None, start)
        place, state = known.count, known.state
        while place < len(trials) and trials[place].verdict is not None:
            state = step(state, trials[place])
            place += 1
        if place > known.count:
            self._known[name] = _Folded(key, place, trials[place - 1], state)
        for trial in trials[place:]:
            state = step(state, trial)
        folded: State = state
        return folded


def _begins_with(trials: tuple[TrialView, ...], known: _Folded) -> bool:
    return known.count == 0 or (known.count <= len(trials) and trials[known.count - 1] is known.last)
