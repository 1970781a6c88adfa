"""What an attempt measured, from its metric rows and memory samples."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.judge.evidence import Evidence
from autotune.judge.guards import ENTROPY, REWARD
from autotune.judge.run_facts import UNKNOWN, RunFacts
from autotune.judge.statistics import (
    detrended_std,
    finite,
    last_quarter,
    mean,
    mean_half_width,
    median,
    median_half_width,
    noise_frac,
)
from autotune.judge.validation import final_validation
from autotune.judge.warmup import warmup_steps as warmup_steps_of
from autotune.records import Figures, MetricRow

THROUGHPUT = "perf/throughput"
STEP_TIME = "perf/time_per_step"
RESPONSE_LENGTH = "response_length/mean"
PROBABILITY_GAP = "training/rollout_probs_diff_mean"
NO_VARIANCE = "autotune/groups_without_variance_frac"
"""Written by the plugin's load monitor; verl itself logs no such share."""


def figures(
    evidence: Evidence,
    *,
    steps_asked: int,
    warmup_steps: int | None,
    kl_metric: str,
    facts: RunFacts = UNKNOWN,
) -> Figures:
    """The figures of an attempt, finished or not; None for what was not measured.

    Args:
        evidence: The attempt's events.
        steps_asked: Steps that the attempt was to make.
        warmup_steps: Leading steps left out of times and throughput; None: by the change-point rule.
        kl_metric: The guard's KL metric.
        facts: What is known of the run's configuration.
    """
    steady, last = steady_rows(evidence.rows, warmup_steps), last_quarter(evidence.rows)
    reward_std = detrended_std(column(evidence.rows, REWARD))
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
        tokens_per_s_half_width=median_half_width(column(steady, THROUGHPUT)),
        step_s=median(column(steady, STEP_TIME)),
        reward=mean(column(last, REWARD)),
        reward_std=reward_std,
        reward_half_width=None if reward_std is None else mean_half_width(reward_std, len(last)),
        kl=mean(column(last, kl_metric)),
        kl_estimator=facts.kl_estimator,
        validation_reward=final_validation(evidence.rows, last),
        entropy=mean(column(last, ENTROPY)),
        truncated_frac=mean(_truncated(row, facts.response_limit_tokens) for row in last),
        no_variance_frac=mean(column(last, NO_VARIANCE)),
        probability_gap=mean(column(last, PROBABILITY_GAP)),
        response_tokens=mean(column(last, RESPONSE_LENGTH)),
        start_s=evidence.first_step_s,
        warmup_steps=len(evidence.rows) - len(steady),
    )


def steady_rows(rows: Sequence[MetricRow], warmup: int | None) -> Sequence[MetricRow]:
    """The rows after the warm-up; `warmup` None: as many are left out as the change-point rule says.

    Without step times the first row is left out, where it is not the only one.
    """
    if warmup is None:
        times = [row.values.get(STEP_TIME) for row in rows]
        known = finite(times)
        warmup = warmup_steps_of(known) if len(known) == len(rows) else min(1, len(rows) - 1)
    return rows[warmup:]


def column(rows: Sequence[MetricRow], key: str) -> list[float]:
    """One metric over the rows; steps that lack it, or where it was not finite, are left out."""
    return finite(row.values.get(key) for row in rows)


def _truncated(row: MetricRow, limit_tokens: int | None) -> float | None:
    """Share of the responses that were cut off; without a limit, that are as long as the longest.

    verl 0.9.1 counts against the longest response of the batch, which need not have reached the limit.
    """
    longest = row.values.get("response_length/max")
    if limit_tokens is not None and longest is not None and longest < limit_tokens:
        return 0.0
    return row.values.get("response_length/clip_ratio")
