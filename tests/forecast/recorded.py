"""Measured peaks of real tiny runs, with the configuration of each attempt."""

import json
from pathlib import Path

from autotune.forecast.correction import MeasuredPeak
from autotune.forecast.memory import forecast
from autotune.forecast.model_facts import facts_from_config

_RECORDED = json.loads((Path(__file__).parents[1] / "data/forecast/tiny_cpu_peaks.json").read_text())
CAPACITY_GB = _RECORDED["capacity_gb"]


def attempts():
    """For each recorded attempt: its name and its phases, forecast and measured."""
    model = facts_from_config(_RECORDED["model"], "tiny")
    for attempt in _RECORDED["attempts"]:
        made = forecast(attempt["config"], model, CAPACITY_GB, 1)
        peaks = [
            MeasuredPeak(phase=phase, predicted_gb=made.peak_of(phase), measured_gb=measured_gb)
            for phase, measured_gb in attempt["peaks_gb"].items()
        ]
        yield attempt["name"], peaks
