"""Which runs' metric rows a report reads: of the trials that have a name, and of a few others.

Rows are what makes a database large, so a report of 1,000 trials reads those of some dozens.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.job.model import QualityStage
from autotune.records import AttemptRole, MetricRow
from autotune.report.findings import curves
from autotune.report.findings.curves import Curve, CurvesFinding, curve
from autotune.report.findings.stages import NAMES_AFTER, NAMES_BEFORE, ClimbedStage, is_complete, name_of
from autotune.report.findings.step_times import StepTimes, step_times
from autotune.store.reader import StoreReader
from autotune.store.stored import StoredTrial


def measured_rows(store: StoreReader, trial: StoredTrial) -> list[MetricRow]:
    """Metric rows of the trial's latest measuring attempt that has any."""
    attempts = [one for one in store.attempts(trial.id) if one.role is AttemptRole.MEASURE]
    found = (store.metric_rows(attempt.attempt_id) for attempt in reversed(attempts))
    return next((rows for rows in found if rows), [])


def read_step_times(store: StoreReader, speed: ClimbedStage | None) -> tuple[StepTimes, ...]:
    """The survivor's steps over its repeats, then those of the fastest trial where it is another."""
    if speed is None:
        return ()
    starts = [trial for trial in speed.starts if is_complete(trial)]
    groups = [(NAMES_BEFORE[speed.stage], starts)]
    if speed.best is not None and speed.best.id not in {trial.id for trial in speed.starts}:
        groups.append((NAMES_AFTER[speed.stage], [speed.best]))
    found = (
        step_times(
            name,
            [name_of(trial) for trial in trials],
            [measured_rows(store, trial) for trial in trials],
            speed.section.warmup_steps,
        )
        for name, trials in groups
    )
    return tuple(times for times in found if times is not None)


def read_curves(store: StoreReader, stages: Sequence[ClimbedStage], kl_metric: str) -> CurvesFinding | None:
    """Curves of the last stage that has one; None before any trial made a step."""
    for climbed in reversed(stages):
        named = [
            (name, trial)
            for name, trial in (
                (NAMES_BEFORE[climbed.stage], climbed.start),
                (NAMES_AFTER[climbed.stage], climbed.best),
            )
            if trial is not None
        ]
        found: dict[int, Curve] = {}
        for name, trial in named:
            rows = measured_rows(store, trial)
            made = curve(name_of(trial), name, rows, kl_metric, curves.MOST_POINTS)
            if made is not None and trial.id not in found:
                found[trial.id] = made
        others, left_out = _others(store, climbed, set(found), kl_metric)
        if found or others:
            section = climbed.section
            return CurvesFinding(
                stage=climbed.stage,
                kl_metric=kl_metric,
                kl_band=section.kl_band if isinstance(section, QualityStage) else None,
                named=tuple(found.values()),
                others=others,
                left_out=left_out,
            )
    return None


def _others(
    store: StoreReader, climbed: ClimbedStage, named: set[int], kl_metric: str
) -> tuple[tuple[Curve, ...], int]:
    """Evenly chosen curves of the stage's other trials, and how many were not chosen."""
    candidates = [
        trial
        for trial in climbed.trials
        if trial.id not in named and (trial.verdict is None or trial.verdict.figures.steps > 0)
    ]
    chosen = curves.thinned(candidates, curves.MOST_OTHERS)
    made = (
        curve(name_of(trial), "", measured_rows(store, trial), kl_metric, curves.MOST_POINTS_OF_OTHERS)
        for trial in chosen
    )
    return tuple(one for one in made if one is not None), len(candidates) - len(chosen)
