"""What each rank had to do in an attempt, step by step, as the plugin's load monitor wrote it.

For a report: `read_rank_load(AttemptPaths(Path(attempt.folder)))` gives None where the attempt had no
monitor, else a `RankLoad`: `spread()` and `histogram()` for tokens per rank, `steps[i].tokens_before`
against `.tokens` for the balance, `steps[i].samples` and `.micro_batches` per rank, `lengths()` for the
scatter of prompts and responses. The file is read when it is asked for; the database holds none of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.job.paths import AttemptPaths
from autotune.judge.statistics import mean


@dataclass(frozen=True, kw_only=True)
class RankPass:
    """One pass of one rank: the micro batches that its share was cut into."""

    rank: int
    work: str
    """`update` or `log_prob`."""
    micro_batches: int
    samples: int
    tokens: int
    largest_tokens: int
    """Of one micro batch."""
    padded_tokens: int
    """Tokens with every sequence of a micro batch padded to its longest; what a model without
    remove_padding computes."""


@dataclass(frozen=True, kw_only=True)
class StepLoad:
    """One training step; tuples have one entry a data-parallel rank."""

    step: int
    tokens_before: tuple[int, ...]
    """Tokens of each rank had verl left the samples in the order of arrival."""
    tokens: tuple[int, ...]
    samples: tuple[int, ...]
    lengths: tuple[tuple[int, int], ...]
    """(prompt, response) tokens of an evenly spaced sample of the batch."""
    groups: int
    """Prompts with several responses."""
    flat_groups: int
    """Of these, the ones whose responses all earned the same."""
    data_wait_s: float
    step_s: float | None
    cost_s: float
    """What the monitor itself took in this step, in the slowest process."""
    passes: tuple[RankPass, ...] = ()

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """Micro batches of each rank's updates in this step; empty where no worker wrote any."""
        updates = [one for one in self.passes if one.work == "update"]
        ranks = sorted({one.rank for one in updates})
        return tuple(sum(one.micro_batches for one in updates if one.rank == rank) for rank in ranks)


@dataclass(frozen=True)
class Spread:
    """Tokens of one rank in one step, over all ranks and steps."""

    mean: float
    smallest: int
    largest: int
    count: int


@dataclass(frozen=True)
class Bin:
    """A bar of a histogram: `low` <= tokens < `high`; the last bar holds its upper end too."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class RankLoad:
    """All steps of an attempt, in order; at least one."""

    steps: tuple[StepLoad, ...]

    def spread(self) -> Spread | None:
        """Tokens per rank and step; None where no step could be balanced."""
        tokens = self._tokens()
        if not tokens:
            return None
        return Spread(sum(tokens) / len(tokens), min(tokens), max(tokens), len(tokens))

    def histogram(self, bins: int = 20) -> tuple[Bin, ...]:
        """Tokens per rank and step in `bins` bars of equal width."""
        tokens = self._tokens()
        if not tokens:
            return ()
        low, high = min(tokens), max(tokens)
        width = (high - low) / bins or 1.0
        counts = [0] * bins
        for value in tokens:
            counts[min(int((value - low) / width), bins - 1)] += 1
        return tuple(Bin(low + i * width, low + (i + 1) * width, count) for i, count in enumerate(counts))

    def imbalance(self, *, balanced: bool) -> float | None:
        """Tokens of the busiest rank over the mean, averaged over the steps; 1.0 is even.

        Args:
            balanced: After verl's balancing, else in the order of arrival.
        """
        shares = [step.tokens if balanced else step.tokens_before for step in self.steps]
        return mean(max(share) * len(share) / sum(share) for share in shares if sum(share))

    def padding_frac(self, work: str = "update") -> float | None:
        """Share of a padded micro batch that is padding, over all passes of this kind."""
        passes = [one for step in self.steps for one in step.passes if one.work == work]
        padded = sum(one.padded_tokens for one in passes)
        return 1.0 - sum(one.tokens for one in passes) / padded if padded else None

    def lengths(self, limit: int = 2000) -> tuple[tuple[int, int], ...]:
        """(prompt, response) tokens over all steps, evenly thinned to at most `limit` points."""
        pairs = [pair for step in self.steps for pair in step.lengths]
        return tuple(pairs[:: max(math.ceil(len(pairs) / limit), 1)])

    def cost_frac(self) -> float | None:
        """The monitor's own share of the steps' time; None where no step was timed."""
        timed = [(step.cost_s, step.step_s) for step in self.steps if step.step_s]
        total_s = sum(step_s for _, step_s in timed)
        return sum(cost_s for cost_s, _ in timed) / total_s if total_s else None

    def _tokens(self) -> list[int]:
        return [tokens for step in self.steps for tokens in step.tokens]


def read_rank_load(paths: AttemptPaths) -> RankLoad | None:
    """The load of an attempt so far; None where nothing was written. Half a line at the end is left out."""
    steps = tuple(_steps(_lines(paths.rank_load)))
    return RankLoad(steps) if steps else None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.split("\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict):
            yield values


def _steps(lines: Iterator[dict[str, Any]]) -> Iterator[StepLoad]:
    """Workers write while their step runs, the trainer at its end: a step's passes stand before it."""
    passes: list[dict[str, Any]] = []
    for line in lines:
        if "pass" in line:
            passes.append(line)
        elif "step" in line:
            yield _step(line, passes)
            passes = []


def _step(line: dict[str, Any], passes: Sequence[dict[str, Any]]) -> StepLoad:
    costs_s: dict[int, float] = {}
    for one in passes:
        costs_s[one["process"]] = costs_s.get(one["process"], 0.0) + one["cost_s"]
    return StepLoad(
        step=line["step"],
        tokens_before=tuple(line["tokens_before"]),
        tokens=tuple(line["tokens"]),
        samples=tuple(line["samples"]),
        lengths=tuple((prompt, response) for prompt, response in line["lengths"]),
        groups=line["groups"],
        flat_groups=line["flat_groups"],
        data_wait_s=line["data_wait_s"],
        step_s=line["step_s"],
        # Workers run side by side, and the trainer waits for them: the slowest and its own add up.
        cost_s=line["cost_s"] + max(costs_s.values(), default=0.0),
        passes=tuple(_pass(one) for one in _one_process_a_rank(passes)),
    )


def _one_process_a_rank(passes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sequence- and tensor-parallel processes of one rank all write the same; the first one counts."""
    first: dict[int, int] = {}
    for one in passes:
        first[one["rank"]] = min(first.get(one["rank"], one["process"]), one["process"])
    return [one for one in passes if one["process"] == first[one["rank"]]]


def _pass(line: dict[str, Any]) -> RankPass:
    return RankPass(
        rank=line["rank"],
        work=line["pass"],
        micro_batches=line["micro_batches"],
        samples=line["samples"],
        tokens=line["tokens"],
        largest_tokens=line["largest_tokens"],
        padded_tokens=line["padded_tokens"],
    )
