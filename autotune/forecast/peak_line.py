"""How far over the device a candidate went where no forecast can be made: a line through measured peaks.

Inside one phase the peak grows with the tokens of one micro batch, since activations and logits are
proportional to them and everything else stays. So peak = fixed + slope x tokens, fitted by least
squares over the trials of this job that came through the phase. It needs no model's sizes; where those
are known, the corrected forecast does better. It grades Optuna's constraint and never decides a launch.
"""

from __future__ import annotations

from collections.abc import Sequence


def peak_on_line(known: Sequence[tuple[float, float]], tokens: float | None) -> float | None:
    """Expected peak as a share of the device; None where nothing is known to draw a line through.

    Args:
        known: (tokens of one micro batch, measured peak share) of trials that came through the phase.
        tokens: The candidate's tokens; None where unknown.
    """
    if tokens is None or not known:
        return None
    mean_tokens = sum(x for x, _ in known) / len(known)
    mean_peak = sum(y for _, y in known) / len(known)
    spread = sum((x - mean_tokens) ** 2 for x, _ in known)
    if spread == 0.0:
        # One size only: nothing is known of the fixed part, so all of it is taken to scale.
        return mean_peak * tokens / mean_tokens if mean_tokens > 0 else None
    slope = sum((x - mean_tokens) * (y - mean_peak) for x, y in known) / spread
    return mean_peak + max(slope, 0.0) * (tokens - mean_tokens)
