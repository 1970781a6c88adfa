"""What was expected of a trial's memory, phase by phase, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autotune.forecast.rejection import Judgement, PhaseForecast, gb_text
from autotune.records import Verdict
from autotune.report.forecast_table import words
from autotune.report.wording import ABSENT, percent

_DIGITS = 3


def against_measured(judged: Judgement | None, verdict: Verdict | None) -> Sequence[RenderableType]:
    """A table for people, and a sentence on how it was judged; empty where no forecast was made."""
    if judged is None:
        return []
    table = Table.grid(padding=(0, 2))
    for one in judged.phases:
        measured_gb = _measured_gb(judged, verdict, one.phase)
        table.add_row(
            "",
            one.phase,
            Text(f"{gb_text(one.expected_gb)} +- {gb_text(one.sd_gb)} GB", justify="right"),
            Text("not measured" if measured_gb is None else f"measured {gb_text(measured_gb)} GB"),
            ABSENT if not one.largest_term else f"{words(one.largest_term)} most",
        )
    chance = f"  {percent(judged.probability_of_oom)} likely to run out of {gb_text(judged.capacity_gb)} GB"
    taught = f"corrected by {judged.measurements} measured peaks" if judged.measurements else "uncorrected"
    return [table, Text(f"{chance}, in {judged.phase}; {taught}")]


def against_measured_json(judged: Judgement | None, verdict: Verdict | None) -> dict[str, Any] | None:
    """The same as plain values; None where no forecast was made."""
    if judged is None:
        return None
    return {
        "capacity_gb": judged.capacity_gb,
        "probability_of_oom": round(judged.probability_of_oom, _DIGITS),
        "phase": judged.phase,
        "measurements": judged.measurements,
        "phases": [_phase_json(one, _measured_gb(judged, verdict, one.phase)) for one in judged.phases],
    }


def _phase_json(one: PhaseForecast, measured_gb: float | None) -> dict[str, Any]:
    return {
        "phase": one.phase,
        "predicted_gb": round(one.predicted_gb, _DIGITS),
        "expected_gb": round(one.expected_gb, _DIGITS),
        "sd_gb": round(one.sd_gb, _DIGITS),
        "largest_term": one.largest_term,
        "measured_gb": None if measured_gb is None else round(measured_gb, _DIGITS),
    }


def _measured_gb(judged: Judgement, verdict: Verdict | None, phase: str) -> float | None:
    frac = verdict.figures.peak_by_phase_frac.get(phase) if verdict else None
    return None if frac is None else frac * judged.capacity_gb
