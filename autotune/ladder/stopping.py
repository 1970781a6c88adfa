"""Whether another sampled trial can pay for itself. Pure.

The stage's own history says what to expect. After k sampled trials without a gain the next one brings
a gain with probability 1 / (k + 2) (Laplace's rule of succession), and it is as large as the stage's
gains were on average. A stage goes on while k is under its patience; beyond that only where the job
names the training that the result is for, and the expected gain saves more of it than a trial takes.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from autotune.job.model import QualityStage, SpeedStage
from autotune.ladder.view import CLEARLY, StageView, TrialView

SAMPLER = "sampler"
"""Origin of the candidates that the joint search proposes."""


@dataclass(frozen=True)
class History:
    """What the stage gained so far."""

    dry: int
    """Sampled trials in a row, up to the latest, that brought no gain over the noise."""
    gains: tuple[float, ...]
    """Each rise of the best by more than the noise, relative to the best before it."""


def why_to_stop(view: StageView, noise_frac: float) -> str | None:
    """Why the joint search should end here; None while a further trial can pay.

    Args:
        view: The stage; its best trial inside the limits is what has to be beaten.
        noise_frac: Relative noise between two runs; a change of less than two of it is none.
    """
    section = view.section
    if not isinstance(section, (SpeedStage, QualityStage)) or section.patience is None:
        return None
    past = history(view, noise_frac)
    if past.dry < section.patience:
        return None
    found = f"{past.dry} sampled trials in a row brought no gain over the noise (patience {section.patience})"
    saved_s = expected_saving_s(past, noise_frac, section.training_hours)
    cost_s = None if saved_s is None else trial_s(view)
    if saved_s is None or cost_s is None:
        return found
    if saved_s > cost_s:
        return None
    return f"{found}; another one saves {saved_s:.0f} s of training on average and takes {cost_s:.0f} s"


def history(view: StageView, noise_frac: float) -> History:
    """The stage's gains in the order of its trials' numbers."""
    start: _Records = (0, ())
    sampled, records = view.folds.over(
        view,
        "stopping.records",
        start,
        lambda state, trial: _with_record(view, state, trial),
        key=view.section.peak_memory_frac,
    )
    gains: list[float] = []
    since = 0
    for one in records:
        best = one.best
        if best is not None and one.value - best > CLEARLY * noise_frac * abs(best):
            gains.append((one.value - best) / abs(best) if best else 0.0)
            since = one.sampled
    return History(sampled - since, tuple(gains))


@dataclass(frozen=True)
class _Record:
    """A trial that was better than all before it."""

    value: float
    best: float | None
    """Of those before it."""
    sampled: int
    """Sampled trials up to this one."""


_Records = tuple[int, tuple[_Record, ...]]
"""Sampled trials so far, and the records among all."""


def _with_record(view: StageView, state: _Records, trial: TrialView) -> _Records:
    if trial.verdict is None:
        return state
    sampled, records = state
    sampled += trial.candidate.origin == SAMPLER and not trial.is_void
    value, best = view.objective_within_limit(trial), records[-1].value if records else None
    if value is not None and (best is None or value > best):
        records = (*records, _Record(value, best, sampled))
    return sampled, records


def trial_s(view: StageView) -> float | None:
    """Median time of a whole trial; None before one has completed."""
    times_s = [s for s in (_whole_s(trial) for trial in view.ended) if s is not None]
    return statistics.median(times_s) if times_s else None


def expected_saving_s(past: History, noise_frac: float, training_hours: float | None) -> float | None:
    """Training time that one more trial saves on average; None where the training is not named."""
    if training_hours is None:
        return None
    gain = statistics.fmean(past.gains) if past.gains else CLEARLY * noise_frac
    return training_hours * 3600.0 * gain / (1.0 + gain) / (past.dry + 2)


def _whole_s(trial: TrialView) -> float | None:
    figures = trial.verdict.figures if trial.verdict else None
    if figures is None or not trial.is_complete or figures.step_s is None:
        return None
    return (figures.start_s or 0.0) + figures.steps_asked * figures.step_s
