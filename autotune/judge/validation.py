"""Validation rewards among verl's metrics: `val-core/<data source>/<acc or reward>/mean@<n>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.judge.statistics import finite, mean
from autotune.records import MetricRow

# verl 0.9.1 trainer/ppo/v1/trainer_base.py:1342-1370: `acc` where the reward function returns it.
_CORE = re.compile(r"val-core/(?P<source>.+)/(?:acc|reward)/mean@(?P<samples>\d+)")


@dataclass(frozen=True)
class Validation:
    """One validation of a run."""

    step: int
    reward: float


def validation_reward(values: Mapping[str, float | None]) -> float | None:
    """The mean over the data sources of one step's validation, each over its most samples; None without."""
    by_source: dict[str, tuple[int, float]] = {}
    for key, value in values.items():
        named = _CORE.fullmatch(key)
        if named is None or value is None:
            continue
        samples, source = int(named["samples"]), named["source"]
        by_source[source] = max(by_source.get(source, (0, value)), (samples, value), key=lambda one: one[0])
    return mean(value for _, value in by_source.values())


def validations(rows: Sequence[MetricRow]) -> list[Validation]:
    """Every validation of a run, in order."""
    found = ((row.step, validation_reward(row.values)) for row in rows)
    return [Validation(step, reward) for step, reward in found if reward is not None]


def final_validation(rows: Sequence[MetricRow], last: Sequence[MetricRow]) -> float | None:
    """The mean of the validations within the `last` rows, else the run's latest; None without any."""
    within = finite(validation.reward for validation in validations(last))
    if within:
        return mean(within)
    every = validations(rows)
    return every[-1].reward if every else None
