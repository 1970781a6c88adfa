"""What each rank had to do in the survivor's and in the fastest run, from the load monitor's files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.job.paths import AttemptPaths
from autotune.records import AttemptRole, StageName
from autotune.report.findings.curves import thinned
from autotune.report.findings.stages import FASTEST, SURVIVOR, ClimbedStage, is_complete, name_of
from autotune.store.rank_load import Bin, RankLoad, Spread, StepLoad, read_rank_load
from autotune.store.reader import StoreReader
from autotune.store.stored import StoredTrial

MOST_STEPS = 200
MOST_LENGTHS = 400
UPDATE = "update"
"""The kind of pass that is told: log-probability passes are cut by a limit of their own."""


@dataclass(frozen=True, kw_only=True)
class StepSpreads:
    """One figure of every rank, step by step; the tuples are equally long."""

    steps: tuple[int, ...]
    mean: tuple[float, ...]
    smallest: tuple[int, ...]
    largest: tuple[int, ...]
    overall: Spread
    """Over all ranks and steps, those that were thinned out included."""


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Tokens of the busiest rank over the mean of the ranks; 1.0 is even."""

    steps: tuple[int, ...]
    before: tuple[float, ...]
    """In the order of arrival."""
    after: tuple[float, ...]
    """As verl handed the samples to its ranks."""
    mean_before: float | None
    mean_after: float | None


@dataclass(frozen=True, kw_only=True)
class LoadFinding:
    """The load of one configuration, from one of its runs."""

    name: str
    trial: str
    ranks: int
    """Data-parallel ones."""
    steps: int
    tokens: StepSpreads | None
    """Per rank; None where verl balanced no step, as for the two beside it."""
    samples: StepSpreads | None
    micro_batches: StepSpreads | None
    """Per update pass of a rank; None where no worker wrote any."""
    histogram: tuple[Bin, ...]
    """Tokens per rank and step."""
    balance: Balance | None
    """None where there is one rank."""
    largest_micro_batch_tokens: int | None
    padding_frac: float | None
    """Share of an update's micro batches that is padding, were they padded to their longest sample."""
    lengths: tuple[tuple[int, int], ...]
    """(prompt, response) tokens of evenly chosen samples."""
    monitor_frac: float | None
    """The monitor's own share of the steps' time."""


def read_loads(store: StoreReader, stages: Sequence[ClimbedStage]) -> tuple[LoadFinding, ...]:
    """The survivor's load, then that of the fastest trial where it is another; without files, nothing."""
    by_stage = {climbed.stage: climbed for climbed in stages}
    survive, speed = by_stage.get(StageName.SURVIVE), by_stage.get(StageName.SPEED)
    starts = [trial for trial in speed.starts if is_complete(trial)] if speed else []
    survivors = [*starts, *([survive.best] if survive and survive.best else [])]
    is_faster = speed is not None and speed.best is not None and speed.best.id not in {t.id for t in starts}
    fastest = [speed.best] if speed is not None and speed.best is not None and is_faster else []
    found = (_first(store, name, trials) for name, trials in ((SURVIVOR, survivors), (FASTEST, fastest)))
    return tuple(one for one in found if one is not None)


def load_finding(name: str, trial: str, load: RankLoad) -> LoadFinding:
    """A run's load in at most `MOST_STEPS` points a figure."""
    updates = [one for step in load.steps for one in step.passes if one.work == UPDATE]
    return LoadFinding(
        name=name,
        trial=trial,
        ranks=max((len(step.tokens) for step in load.steps), default=0),
        steps=len(load.steps),
        tokens=_spreads(load.steps, lambda step: step.tokens),
        samples=_spreads(load.steps, lambda step: step.samples),
        micro_batches=_spreads(load.steps, _update_parts),
        histogram=load.histogram(_bins(load)),
        balance=_balance(load),
        largest_micro_batch_tokens=max((one.largest_tokens for one in updates), default=None),
        padding_frac=load.padding_frac(UPDATE),
        lengths=load.lengths(MOST_LENGTHS),
        monitor_frac=load.cost_frac(),
    )


def _first(store: StoreReader, name: str, trials: Sequence[StoredTrial]) -> LoadFinding | None:
    """Of the first trial whose latest measuring attempt with a file has one."""
    loads = ((trial, load) for trial in trials for load in _loads(store, trial))
    trial, load = next(loads, (None, None))
    return None if load is None else load_finding(name, name_of(trial), load)


def _loads(store: StoreReader, trial: StoredTrial) -> Iterator[RankLoad]:
    for attempt in reversed(store.attempts(trial.id)):
        if attempt.role is AttemptRole.MEASURE:
            load = read_rank_load(AttemptPaths(Path(attempt.folder)))
            if load is not None:
                yield load


def _spreads(steps: Sequence[StepLoad], values: Callable[[StepLoad], Sequence[int]]) -> StepSpreads | None:
    known = [(step.step, values(step)) for step in steps if values(step)]
    everything = [value for _, row in known for value in row]
    if not everything:
        return None
    kept = thinned(known, MOST_STEPS)
    overall = Spread(sum(everything) / len(everything), min(everything), max(everything), len(everything))
    return StepSpreads(
        steps=tuple(number for number, _ in kept),
        mean=tuple(sum(row) / len(row) for _, row in kept),
        smallest=tuple(min(row) for _, row in kept),
        largest=tuple(max(row) for _, row in kept),
        overall=overall,
    )


def _bins(load: RankLoad) -> int:
    """The square root of the number of values, from 5 to 20: few values in many bars show nothing."""
    return min(max(math.isqrt(sum(len(step.tokens) for step in load.steps)), 5), 20)


def _update_parts(step: StepLoad) -> tuple[int, ...]:
    return tuple(one.micro_batches for one in step.passes if one.work == UPDATE)


def _balance(load: RankLoad) -> Balance | None:
    known = [step for step in load.steps if len(step.tokens) > 1 and _has_tokens(step)]
    if not known:
        return None
    kept = thinned(known, MOST_STEPS)
    return Balance(
        steps=tuple(step.step for step in kept),
        before=tuple(_busiest(step.tokens_before) for step in kept),
        after=tuple(_busiest(step.tokens) for step in kept),
        mean_before=load.imbalance(balanced=False),
        mean_after=load.imbalance(balanced=True),
    )


def _has_tokens(step: StepLoad) -> bool:
    return sum(step.tokens) > 0 and sum(step.tokens_before) > 0


def _busiest(tokens: Sequence[int]) -> float:
    return max(tokens) * len(tokens) / sum(tokens)
