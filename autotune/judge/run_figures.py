"""What one run contributes to a comparison: speed end to end, lengths, rewards, memory. Pure.

verl's `perf/throughput` counts a step with its weight sync and without validation, and it rises by itself
when responses get longer. So validation is added at the rate the user's own run has it, and speeds are
brought to one length before they are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.judge.figures import RESPONSE_LENGTH, STEP_TIME, THROUGHPUT, column, steady_rows
from autotune.judge.guards import REWARD
from autotune.judge.intervals import t_critical
from autotune.judge.statistics import finite, last_quarter, mean, median
from autotune.judge.validation import validation_reward
from autotune.records import MetricRow

PROMPT_LENGTH = "prompt_length/mean"
VALIDATION_TIME = "timing_s/testing"
_ELASTICITY_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """One completed run of a configuration. None where verl did not log it."""

    tokens_per_s_per_gpu: float | None
    """Median over the steady steps; weight sync and amortised validation included."""
    sequence_tokens: float | None
    """Mean length of a prompt with its response over the same steps."""
    reward: float | None
    """Mean training reward of the last quarter of the steps."""
    validation_reward: float | None
    """Mean over the validation sources after the last step."""
    peak_memory_gb: float | None
    log_steps: tuple[tuple[float, float], ...] = ()
    """(log sequence tokens, log seconds) of the steady steps."""


def run_figures(
    rows: Sequence[MetricRow],
    *,
    warmup_steps: int | None,
    validation_every: int | None,
    peak_memory_gb: float | None,
) -> RunFigures:
    """The figures of a run's metric rows.

    Args:
        rows: One per training step.
        warmup_steps: Leading steps left out; None: by the change-point rule.
        validation_every: verl's `trainer.test_freq` of the user's own run; None or below 1: it has none.
        peak_memory_gb: As the attempt measured it.
    """
    steady = steady_rows(rows, warmup_steps)
    validation_s = median(column(rows, VALIDATION_TIME)) or 0.0
    extra_s = validation_s / validation_every if validation_every and validation_every > 0 else 0.0
    return RunFigures(
        tokens_per_s_per_gpu=median(_with_extra(row, extra_s) for row in steady),
        sequence_tokens=mean(map(_sequence_tokens, steady)),
        reward=mean(column(last_quarter(rows), REWARD)),
        validation_reward=_latest(map(validation_reward, (row.values for row in rows))),
        peak_memory_gb=peak_memory_gb,
        log_steps=tuple(_log_steps(steady)),
    )


def length_elasticity(runs: Sequence[RunFigures]) -> tuple[float, float]:
    """Smallest and largest believable e in: seconds of a step ~ (tokens of a sequence)^e; within 0..1.

    One slope over the steps of all runs, each run with a level of its own (analysis of covariance), and
    its 95 % interval. Steps that hardly differ in length say nothing: then it is all of 0..1.
    """
    points: list[tuple[float, float]] = []
    groups = [run.log_steps for run in runs if len(run.log_steps) > 1]
    for group in groups:
        x_mean, y_mean = (statistics.fmean(values) for values in zip(*group, strict=True))
        points += [(x - x_mean, y - y_mean) for x, y in group]
    sxx = math.fsum(x * x for x, _ in points)
    df = len(points) - len(groups) - 1
    if df < 1 or sxx == 0.0:
        return 0.0, 1.0
    slope = math.fsum(x * y for x, y in points) / sxx
    residual = math.fsum((y - slope * x) ** 2 for x, y in points)
    half = t_critical(_ELASTICITY_ALPHA, df) * math.sqrt(residual / df / sxx)
    return min(max(slope - half, 0.0), 1.0), min(max(slope + half, 0.0), 1.0)


def cautious_elasticity(
    pairs: Sequence[tuple[RunFigures, RunFigures]], believable: tuple[float, float]
) -> float:
    """Of the believable e the one that is least to the winners' favour over all pairs together.

    Args:
        pairs: Winner, reference.
        believable: Smallest and largest e, as `length_elasticity` has it.

    One e for all of them: the least favourable of each pair by itself would take chance differences in
    length, which cancel, for a loss of speed.
    """
    longer = math.fsum(_log_longer(winner, reference) for winner, reference in pairs)
    return min(believable) if longer > 0.0 else max(believable)


def log_speed_gain(winner: RunFigures, reference: RunFigures, elasticity: float) -> float | None:
    """log(tokens/s of `winner` / tokens/s of `reference`) at equal lengths; None where one is missing.

    With seconds ~ tokens^e the speed tokens/seconds goes with tokens^(1 - e), which is taken out.
    """
    ours, theirs = winner.tokens_per_s_per_gpu, reference.tokens_per_s_per_gpu
    if not ours or not theirs:
        return None
    return math.log(ours / theirs) - (1.0 - elasticity) * _log_longer(winner, reference)


def _log_longer(winner: RunFigures, reference: RunFigures) -> float:
    """Log of how much longer the winner's sequences are; 0 where a length is missing."""
    if not winner.sequence_tokens or not reference.sequence_tokens:
        return 0.0
    return math.log(winner.sequence_tokens / reference.sequence_tokens)


def _with_extra(row: MetricRow, extra_s: float) -> float | None:
    speed, step_s = row.values.get(THROUGHPUT), row.values.get(STEP_TIME)
    if speed is None or not step_s:
        return speed
    return speed * step_s / (step_s + extra_s)


def _sequence_tokens(row: MetricRow) -> float | None:
    response = row.values.get(RESPONSE_LENGTH)
    return None if response is None else response + (row.values.get(PROMPT_LENGTH) or 0.0)


def _log_steps(rows: Sequence[MetricRow]) -> list[tuple[float, float]]:
    found = []
    for row in rows:
        tokens, step_s = finite([_sequence_tokens(row)]), finite([row.values.get(STEP_TIME)])
        if tokens and step_s and tokens[0] > 0.0 and step_s[0] > 0.0:
            found.append((math.log(tokens[0]), math.log(step_s[0])))
    return found


def _latest(values: Iterable[float | None]) -> float | None:
    found = finite(values)
    return found[-1] if found else None
