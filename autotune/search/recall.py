"""Which trials the sampler's model is made of: the best ones and the latest, kept up trial by trial.

TPE models at most 25 good trials, and what the others do for it is to say where not to look: more of
them cost time on each proposal and change nothing that noise would not.
"""

from __future__ import annotations

import heapq
from collections import deque

from optuna.trial import FrozenTrial, TrialState

RECALLED = 100
"""A study of so many trials is recalled whole."""
RECALLED_BEST = 25
"""Of TPE's own `default_gamma`: it never takes more trials than these for good ones."""


class Recall:
    """Takes in each trial when it is asked and again when it is told; what was told never changes.

    Holds `RECALLED` trials at most, however long the study is.
    """

    def __init__(self) -> None:
        self._latest: deque[FrozenTrial] = deque()
        self._early: list[FrozenTrial] = []
        """What is older than the latest, as long as all of it is recalled."""
        self._best: list[tuple[float, int, FrozenTrial]] = []
        """Heap of the best among the older ones, the worst of them first; of equals the later."""
        self._known = 0

    def know(self, trial: FrozenTrial) -> None:
        """Takes in a trial: a new one, whose number is larger than all before, or the new state of one."""
        if self._latest and trial.number <= self._latest[-1].number:
            self._renew(trial)
            return
        self._known += 1
        self._latest.append(trial)
        if len(self._latest) > RECALLED - RECALLED_BEST:
            left = self._latest.popleft()
            self._early.append(left)
            self._weigh(left)
        if self._known > RECALLED:
            self._early.clear()

    def trials(self) -> list[FrozenTrial]:
        """The recalled trials in the order of their numbers."""
        best = self._early if self._known <= RECALLED else [trial for _, _, trial in self._best]
        return [*sorted(best, key=lambda trial: trial.number), *self._latest]

    def _renew(self, trial: FrozenTrial) -> None:
        for kept in (self._latest, self._early):
            for place, known in enumerate(kept):
                if known.number == trial.number:
                    kept[place] = trial
        if trial.number < self._latest[0].number:
            self._weigh(trial)

    def _weigh(self, trial: FrozenTrial) -> None:
        """Keeps an older trial if it is among the best that meet their constraints."""
        if trial.state != TrialState.COMPLETE or trial.value is None:
            return
        if any(value > 0.0 for value in trial.constraints.values()):
            return
        heapq.heappush(self._best, (trial.value, -trial.number, trial))
        if len(self._best) > RECALLED_BEST:
            heapq.heappop(self._best)
