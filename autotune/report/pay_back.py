"""When tuning pays back, told only of a gain that the noise between runs does not explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.job.model import Job
from autotune.judge.ledger import Ledger, PayBack, pay_back
from autotune.ladder.view import CLEARLY
from autotune.records import StageName, StageResult
from autotune.report.baseline import stored_baseline
from autotune.store.stored import StoredTrial
from autotune.verl_config.training_shape import gpus_of


def clear_pay_back(
    books: Ledger, results: Mapping[StageName, StageResult], job: Job, trials: Sequence[StoredTrial]
) -> PayBack | None:
    """The pay-back of stage speed; None before it has ended, or where it measured nothing.

    Args:
        books: The job's ledger.
        results: The stages that ended.
        job: The job.
        trials: Of stage speed.
    """
    result, section = results.get(StageName.SPEED), job.stage(StageName.SPEED)
    if result is None or section is None:
        return None
    if _is_start(result, trials):
        # The luckiest repeat of what the stage started from is no faster than the others.
        result = replace(result, best_figures=result.baseline)
    base = stored_baseline(StageName.SPEED, section, trials)
    least_gain_frac = 0.0 if base is None else CLEARLY * base.throughput_noise_frac
    return pay_back(
        books,
        {StageName.SPEED: result},
        _baseline_gpus(job, results),
        least_gain_frac=least_gain_frac,
    )


def _baseline_gpus(job: Job, results: Mapping[StageName, StageResult]) -> int:
    """GPUs of one run of what stage speed measures against."""
    survive = results.get(StageName.SURVIVE)
    return gpus_of(survive.overrides if survive else {}, job.resources.gpus_per_trial)


def _is_start(result: StageResult, trials: Sequence[StoredTrial]) -> bool:
    by_number = {trial.number: trial.candidate.params for trial in trials}
    return result.best in by_number and by_number[result.best] == by_number[min(by_number)]
