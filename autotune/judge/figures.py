"""What an attempt measured, from its metric rows and memory samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.judge.evidence import Evidence
from autotune.judge.guards import REWARD
from autotune.judge.statistics import detrended_std, finite, mean, median, noise_frac
from autotune.records import Figures, MetricRow

THROUGHPUT = "perf/throughput"
STEP_TIME = "perf/time_per_step"
RESPONSE_LENGTH = "response_length/mean"
_LAST_SHARE = 4
_LAST_AT_LEAST = 3


def figures(evidence: Evidence, *, steps_asked: int, warmup_steps: int, kl_metric: str) -> Figures:
    """The figures of an attempt, finished or not; None for what was not measured.

    Args:
        evidence: The attempt's events.
        steps_asked: Steps that the attempt was to make.
        warmup_steps: Leading steps left out of times and throughput.
        kl_metric: The guard's KL metric.
    """
    steady, last = evidence.rows[warmup_steps:], last_rows(evidence.rows)
    by_phase = evidence.peak_frac_by_phase()
    peak_phase = max(by_phase, key=by_phase.__getitem__) if by_phase else ""
    peaks_gb = evidence.peaks_gb.values()
    return Figures(
        steps=evidence.steps,
        steps_asked=steps_asked,
        peak_memory_frac=by_phase.get(peak_phase),
        peak_memory_gb=max(peaks_gb) if peaks_gb else None,
        peak_memory_phase=peak_phase,
        peak_by_phase_frac=dict(by_phase),
        tokens_per_s_per_gpu=median(column(steady, THROUGHPUT)),
        tokens_per_s_noise_frac=noise_frac(column(steady, THROUGHPUT)),
        step_s=median(column(steady, STEP_TIME)),
        reward=mean(column(last, REWARD)),
        reward_std=detrended_std(column(evidence.rows, REWARD)),
        kl=mean(column(last, kl_metric)),
        response_tokens=mean(column(last, RESPONSE_LENGTH)),
        start_s=evidence.first_step_s,
    )


def column(rows: Sequence[MetricRow], key: str) -> list[float]:
    """One metric over the rows; steps that lack it, or where it was not finite, are left out."""
    return finite(row.values.get(key) for row in rows)


def last_rows(rows: Sequence[MetricRow]) -> Sequence[MetricRow]:
    """The last quarter of the steps, at least three where there are so many."""
    return rows[-max(_LAST_AT_LEAST, math.ceil(len(rows) / _LAST_SHARE)) :]
