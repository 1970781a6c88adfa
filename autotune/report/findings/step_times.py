"""Where a training step's time goes, before and after: verl's own timers of the steady steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.judge.figures import STEP_TIME, THROUGHPUT, column, steady_rows
from autotune.judge.phases import STEP_PHASES, from_timer
from autotune.judge.statistics import median
from autotune.records import MetricRow

TIMER = "timing_s/"
OTHER = "other"
"""What no timer of a phase covers."""
TOKENS_PER_STEP = "perf/total_num_tokens"
_NOT_IN_STEP = "validation"


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Medians over the steady steps of one configuration."""

    name: str
    trials: tuple[str, ...]
    steps: int
    """How many steps the medians are of."""
    step_s: float
    by_phase_s: Mapping[str, float]
    """In the step's order; `other` last."""
    tokens_per_step: float | None
    tokens_per_s_per_gpu: float | None


def step_times(
    name: str, trials: Sequence[str], runs: Sequence[Sequence[MetricRow]], warmup_steps: int | None
) -> StepTimes | None:
    """Times of the runs' steady steps taken together; None where verl logged none.

    Args:
        name: What people call the configuration.
        trials: Names of the trials that the runs belong to.
        runs: Metric rows by run.
        warmup_steps: Leading steps of each run that are left out; None: found in its step times.
    """
    steady = [steady_rows([row for row in run if row.step >= 1], warmup_steps) for run in runs]
    rows = [row for run in steady for row in run]
    step_s = median(column(rows, STEP_TIME)) or median(column(rows, f"{TIMER}step"))
    if step_s is None:
        return None
    timed: dict[str, float] = {}
    for key in sorted({key for row in rows for key in row.values if key.startswith(TIMER)}):
        phase, seconds = from_timer(key.removeprefix(TIMER)), median(column(rows, key))
        if phase is not None and phase != _NOT_IN_STEP and seconds is not None:
            timed[phase] = timed.get(phase, 0.0) + seconds
    by_phase_s = {phase: timed[phase] for phase in STEP_PHASES if phase in timed}
    by_phase_s[OTHER] = max(0.0, step_s - sum(by_phase_s.values()))
    return StepTimes(
        name=name,
        trials=tuple(trials),
        steps=len(rows),
        step_s=step_s,
        by_phase_s=by_phase_s,
        tokens_per_step=median(column(rows, TOKENS_PER_STEP)),
        # As the ladder takes it: of each run first, then over the runs.
        tokens_per_s_per_gpu=median(median(column(run, THROUGHPUT)) for run in steady),
    )
