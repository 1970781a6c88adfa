"""Reward and KL over the steps: the trials that have a name in full, some others thinned to a background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from autotune.judge.guards import REWARD
from autotune.records import MetricRow, StageName

MOST_OTHERS = 40
"""Curves of unnamed trials that a report carries, whatever the study's size."""
MOST_POINTS = 400
MOST_POINTS_OF_OTHERS = 60

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One trial's curves; None where a step's value was not finite or not logged."""

    trial: str
    name: str
    """What people call it; empty for the background."""
    steps: tuple[int, ...]
    reward: tuple[float | None, ...]
    kl: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class CurvesFinding:
    """Curves of the last stage that has any."""

    stage: StageName
    kl_metric: str
    kl_band: tuple[float, float] | None
    """Of the quality stage; None where another stage's curves are shown."""
    named: tuple[Curve, ...]
    others: tuple[Curve, ...]
    left_out: int
    """Trials of the stage with curves of their own that are not here."""


def curve(trial: str, name: str, rows: Sequence[MetricRow], kl_metric: str, most_points: int) -> Curve | None:
    """The trial's curves in at most `most_points` points; None without a training step."""
    kept = thinned([row for row in rows if row.step >= 1], most_points)
    if not kept:
        return None
    return Curve(
        trial=trial,
        name=name,
        steps=tuple(row.step for row in kept),
        reward=tuple(row.values.get(REWARD) for row in kept),
        kl=tuple(row.values.get(kl_metric) for row in kept),
    )


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the items, evenly chosen, the first and the last among them."""
    if most < 2:
        raise ValueError(f"most must be at least 2, but got {most}")
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(index * last / (most - 1))] for index in range(most)]
