"""How far over the device the trials that ran out of memory went, for Optuna's graded constraint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autotune.forecast.peak_model import micro_batch_tokens, predicted_peak_frac
from autotune.ladder.view import TrialView
from autotune.records import Value

_COMPARED = 16
"""Latest trials that the growth of memory is read from: more would cost time and add nothing to a line."""

FlatOf = Callable[[int], Mapping[str, Value]]
"""A trial's number to its resolved verl configuration."""


def oom_peak_frac(view: TrialView, others: Iterable[TrialView], flat_of: FlatOf) -> float | None:
    """Expected peak of `view` as a share of the device; None where it did not run out of memory.

    Args:
        view: The ended trial.
        others: The stage's trials; those that came through the failing phase say how it grows.
        flat_of: Asked only for trials that ran out of memory or came through.
    """
    failure = view.verdict.failure if view.verdict else None
    if failure is None or not failure.kind.startswith("oom_"):
        return None
    known: list[tuple[float, float]] = []
    for other in reversed(list(others)):
        if len(known) == _COMPARED:
            break
        peak = other.verdict.figures.peak_by_phase_frac.get(failure.phase) if other.verdict else None
        if other.number == view.number or peak is None:
            continue
        tokens = micro_batch_tokens(flat_of(other.number), failure.phase)
        if tokens is not None:
            known.append((tokens, peak))
    return predicted_peak_frac(known, micro_batch_tokens(flat_of(view.number), failure.phase))
