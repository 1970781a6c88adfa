"""The forecast as the plain values that `autotune check --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.forecast.memory import MemoryForecast

_DIGITS = 3


def forecast_json(made: MemoryForecast, largest: Mapping[str, float] | None = None) -> dict[str, Any]:
    """`{"capacity_gb", "fits", "phases": [{"phase", "peak_gb", "terms"}], "largest": {key: value}, ...}`.

    Args:
        made: The forecast.
        largest: The largest value of each size that fits, from `solve.largest_that_fits`.
    """
    return {
        "capacity_gb": round(made.capacity_gb, _DIGITS),
        "fits": made.fits,
        "phases": [
            {
                "phase": one.phase,
                "peak_gb": round(one.peak_gb, _DIGITS),
                "terms": {name: round(gb, _DIGITS) for name, gb in one.terms.items()},
            }
            for one in made.phases
        ],
        "largest": dict(largest or {}),
        "host": {
            "capacity_gb": made.host_capacity_gb,
            "needed_gb": round(made.host_gb, _DIGITS),
            "terms": {name: round(gb, _DIGITS) for name, gb in made.host.items()},
        },
        "rollout_cache_gb": round(made.rollout.cache_gb, _DIGITS),
        "sample_tokens": round(made.lengths.sample_tokens, 1),
    }
