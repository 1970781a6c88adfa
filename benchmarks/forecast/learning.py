"""How much of the forecast's error three finished trials take away, on candidates that taught nothing.

The trials are the recorded sizes of `benchmarks/first_feasible` (real verl on CPU), with those of their
phases that were recorded. Every three of them teach once; the error is the mean distance of the peaks of all
others.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from autotune.forecast.correction import CAPPED_CPU_WORKER, Correction, MeasuredPeak
from autotune.forecast.memory import forecast
from autotune.forecast.model_facts import facts_from_config
from autotune.job.loading import load_job
from autotune.trial.preparation import device_overrides
from autotune.verl_config.compose import compose
from benchmarks.first_feasible.landscape import PHASES, Landscape
from benchmarks.first_feasible.record import overrides_of

_JOB = Path(__file__).resolve().parents[2] / "jobs" / "tiny-cpu.yaml"
_TEACHERS = 3


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Mean errors in GB over the held-out trials, and how they compare."""

    trials: int
    choices: int
    """Of three teachers."""
    raw_gb: float
    corrected_gb: float
    median_ratio: float
    """Corrected over raw, of one choice of teachers."""
    halved_share: float
    """Of the choices, where it is at most a half."""


def learning(path: Path) -> Learning:
    """The figures over all choices of teachers."""
    trials, capacity_gb = _trials(path)
    raw, corrected, ratios = [], [], []
    for teachers in combinations(range(len(trials)), _TEACHERS):
        taught = Correction(capacity_gb, CAPPED_CPU_WORKER).learn(
            peak for index in teachers for peak in trials[index]
        )
        others = [peak for index, peaks in enumerate(trials) if index not in teachers for peak in peaks]
        before = statistics.fmean(abs(one.predicted_gb - one.measured_gb) for one in others)
        after = statistics.fmean(
            abs(taught.estimate(one.phase, one.predicted_gb).mean_gb - one.measured_gb) for one in others
        )
        raw.append(before)
        corrected.append(after)
        ratios.append(after / before)
    return Learning(
        trials=len(trials),
        choices=len(ratios),
        raw_gb=statistics.fmean(raw),
        corrected_gb=statistics.fmean(corrected),
        median_ratio=statistics.median(ratios),
        halved_share=sum(ratio <= 0.5 for ratio in ratios) / len(ratios),
    )


def _trials(path: Path) -> tuple[list[list[MeasuredPeak]], float]:
    landscape, job = Landscape.read(path), load_job(_JOB)
    capacity_gb = job.resources.cpu.worker_memory_cap_gb
    assert capacity_gb is not None
    model = facts_from_config(landscape.model, "tiny")
    found = []
    for (kind, size), peaks_gb in landscape.recorded.items():
        settings = {**device_overrides(job), **overrides_of(kind, size)}
        made = forecast(compose(job.verl, settings).flat, model, capacity_gb, job.resources.gpus_per_trial)
        predicted = {one.phase: one.peak_gb for one in made.phases}
        found.append(
            [
                MeasuredPeak(phase=phase, predicted_gb=predicted[phase], measured_gb=peaks_gb[phase])
                for phase in PHASES
                if phase in peaks_gb
            ]
        )
    return found, capacity_gb
