"""Device hours by stage and outcome."""

from __future__ import annotations

import plotly.graph_objects as go

from autotune.records import Outcome, StageName
from autotune.report.html.plot import ACCENT, BAD, BEFORE, MUTED, PAPER, SERIES, axis, figure, pattern
from autotune.report.report_data import ReportData
from autotune.report.wording import number

_RUNNING = "running"
_LOOKS = {
    Outcome.COMPLETED.value: (ACCENT, ""),
    Outcome.FAILED.value: (BAD, "/"),
    Outcome.ENDED_EARLY.value: (SERIES[1], "+"),
    Outcome.REJECTED.value: (MUTED, "x"),
    Outcome.INFRASTRUCTURE.value: (MUTED, "\\"),
    Outcome.USER_FAULT.value: (BAD, "x"),
    Outcome.STOPPED.value: (BEFORE, "."),
    _RUNNING: (BEFORE, "-"),
}
"""(colour, pattern): no outcome is told by its colour alone."""
_OTHER_LOOK = (MUTED, "|")


def ledger_figure(data: ReportData) -> go.Figure | None:
    """One bar a stage; None before anything was spent."""
    entries = [entry for entry in data.ledger.entries if entry.gpu_s > 0]
    if not entries:
        return None
    stages = [stage.value for stage in StageName if any(entry.stage is stage for entry in entries)]
    traces = []
    known = [outcome for outcome in _LOOKS if any(entry.outcome == outcome for entry in entries)]
    for outcome in dict.fromkeys([*known, *(entry.outcome for entry in entries)]):
        colour, shape = _LOOKS.get(outcome, _OTHER_LOOK)
        hours = {entry.stage.value: entry.gpu_s / 3600 for entry in entries if entry.outcome == outcome}
        traces.append(
            go.Bar(
                y=stages,
                x=[hours.get(stage, 0.0) for stage in stages],
                orientation="h",
                name=outcome.replace("_", " "),
                marker={
                    "color": colour,
                    "line": {"color": PAPER, "width": 1.5},
                    "pattern": pattern(shape),
                },
                text=[number(round(hours[stage], 3)) if stage in hours else "" for stage in stages],
                textposition="none",
                hovertemplate="%{y}: %{x:.3g} h<extra>" + outcome + "</extra>",
            )
        )
    hours_word = "GPU hours" if data.device == "gpu" else "device hours"
    return figure(
        traces,
        height=110 + 40 * len(stages),
        margin={"t": 34, "b": 44},
        barmode="stack",
        xaxis=axis(title={"text": hours_word}, rangemode="tozero"),
        yaxis=axis(autorange="reversed", gridcolor="rgba(0,0,0,0)"),
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
    )
