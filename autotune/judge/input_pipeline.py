"""Whether a run waits for its data, and how many loader processes it should have. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.judge.statistics import median
from autotune.records import MetricRow

DATA_WAIT_S = "autotune/data_wait_s"
"""Written by the plugin's load monitor: verl times no such part of a step."""
_WAIT_FRAC = 0.02
_MOST_WORKERS = 32


def input_wait_frac(rows: Sequence[MetricRow]) -> float | None:
    """Share of a step that the trainer waits for prompts, the median after the first step.

    The first step starts the loader's processes. None where the monitor was off.
    """
    shares = []
    for row in rows[1:]:
        wait_s, step_s = row.values.get(DATA_WAIT_S), row.values.get("timing_s/step")
        if wait_s is not None and step_s:
            shares.append(wait_s / step_s)
    return median(shares)


def input_advice(rows: Sequence[MetricRow], workers: int | None) -> str | None:
    """One sentence with the figure and the value to try; None where the wait is not worth a change.

    Args:
        rows: The run's metric rows.
        workers: data.dataloader_num_workers of the run; None where not known.
    """
    frac = input_wait_frac(rows)
    if frac is None or frac <= _WAIT_FRAC:
        return None
    waited = f"{frac:.0%} of a step is spent waiting for prompts"
    if workers is None:
        return f"{waited}: raise data.dataloader_num_workers"
    if workers >= _MOST_WORKERS:
        return f"{waited} with {workers} loader processes: tokenize the prompts beforehand"
    suggested = min(max(2 * workers, 2), _MOST_WORKERS)
    return f"{waited}: try data.dataloader_num_workers={suggested} (it is {workers})"
