"""The stages behind one door: the next move and the baseline of whichever stage it is."""

from __future__ import annotations

from autotune.job.model import SpeedStage, StageSection
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


def measures_alone(section: StageSection, device: str) -> bool:
    """Whether a trial of this stage may share the machine with no other.

    Trials on GPUs hold disjoint ones. Slots of a CPU are nothing but a count: two trials share its
    cores, and a speed measured there is half the other's doing.
    """
    if not isinstance(section, SpeedStage):
        return False
    return device == "cpu" if section.alone is None else section.alone
