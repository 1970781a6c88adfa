"""The stages behind one door: the next move and the baseline of whichever stage it is."""

from __future__ import annotations

from autotune.ladder import finish, quality, speed, survive
from autotune.ladder.view import Baseline, Move, StageView
from autotune.records import StageName


def next_move(view: StageView) -> Move:
    """What to do with a free slot."""
    if view.stage is StageName.SURVIVE:
        return survive.next_move(view)
    if view.stage is StageName.SPEED:
        return speed.next_move(view)
    if view.stage is StageName.FINISH:
        return finish.next_move(view)
    return quality.next_move(view)


def baseline(view: StageView) -> Baseline | None:
    """What the stage's gains are measured against; None for survive, finish and before there is one."""
    if view.stage is StageName.SPEED:
        return speed.baseline(view)
    if view.stage is StageName.QUALITY:
        return quality.baseline(view)
    return None
