"""Whether there is anything left to spend. Pure."""

from __future__ import annotations

from autotune.job.model import BudgetSection


def exhausted(budget: BudgetSection, *, device_s: float, trials: int, wall_s: float) -> str | None:
    """Which limit is used up, in words; None while all have room.

    Args:
        budget: The job's limits.
        device_s: Device seconds of all attempts, running ones included.
        trials: Trials told so far, over all stages.
        wall_s: Seconds that controllers of this job have run.
    """
    if budget.gpu_hours is not None and device_s >= budget.gpu_hours * 3600:
        return f"budget.gpu_hours: {device_s / 3600:.2f} of {budget.gpu_hours:g} used"
    if budget.trials is not None and trials >= budget.trials:
        return f"budget.trials: {trials} of {budget.trials} used"
    if budget.wall_hours is not None and wall_s >= budget.wall_hours * 3600:
        return f"budget.wall_hours: {wall_s / 3600:.2f} of {budget.wall_hours:g} used"
    return None
