"""Where the steady steps of a run begin: a change-point rule over its step times. Pure.

verl's first steps compile, capture graphs, allocate optimizer states and fill caches; how many do so
depends on the engines, so no constant is right.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_CLEARLY = 3.0
"""Standard deviations over the kept steps' median that make a step clearly slower."""
_LEAST_SIGMA_FRAC = 0.02
"""Steps never agree better than this, however alike a few of them look."""


def warmup_steps(step_s: Sequence[float]) -> int:
    """How many leading steps to leave out; never more than half of them.

    The candidate is the truncation of least standard error of the mean (MSER: K. P. White, An effective
    truncation heuristic for bias reduction in simulation output, Simulation 69(6), 1997), searched up to
    half of the steps as its author advises. MSER alone also cuts by chance, at a hiccup, and where times
    rise; so of its cut only the leading steps count that are each clearly slower than the steps after it:
    over their median by three standard deviations (1.4826 x MAD).

    Args:
        step_s: Seconds of each step, in order; a NaN or Inf counts as not slow.
    """
    cut = _least_standard_error(step_s)
    kept = step_s[cut:]
    return next((place for place in range(cut) if not _is_clearly_slower(step_s[place], kept)), cut)


def _least_standard_error(step_s: Sequence[float]) -> int:
    def squared_error(cut: int) -> float:
        kept = step_s[cut:]
        mean = statistics.fmean(kept)
        return math.fsum((value - mean) ** 2 for value in kept) / len(kept) ** 2

    if not all(map(math.isfinite, step_s)):
        return 0
    return min(range(len(step_s) // 2 + 1), key=squared_error) if step_s else 0


def _is_clearly_slower(value: float, kept: Sequence[float]) -> bool:
    middle = statistics.median(kept)
    spread = 1.4826 * statistics.median([abs(other - middle) for other in kept])
    return value > middle + _CLEARLY * max(spread, _LEAST_SIGMA_FRAC * abs(middle))
