"""Peak memory by phase: one mark a configuration, a thin one for its forecast, lines for limit and device."""

from __future__ import annotations

import plotly.graph_objects as go

from autotune.report.html.plot import ACCENT, BEFORE, INK, LEGEND_BELOW, MUTED, axis, figure, limit_line
from autotune.report.report_data import ReportData
from autotune.report.wording import percent

MARKS = (
    {"symbol": "circle-open", "color": BEFORE, "size": 11, "line": {"width": 2}},
    {"symbol": "square-open", "color": INK, "size": 10, "line": {"width": 1.5}},
    {"symbol": "diamond", "color": MUTED, "size": 10},
    {"symbol": "circle", "color": ACCENT, "size": 12},
)
"""Told apart by shape; the last one is the exported configuration's."""

FORECAST_SYMBOLS = ("x-thin", "cross-thin", "y-up", "asterisk")
"""Of the same configurations: thin, since nothing was measured there. Such marks are all line."""


def memory_figure(data: ReportData) -> go.Figure | None:
    """Fractions of the device; None where nothing was measured."""
    finding = data.memory
    if finding is None:
        return None
    phases = list(finding.phases)
    traces = []
    for index, use in enumerate(finding.uses):
        mark = MARKS[-1] if index == len(finding.uses) - 1 else MARKS[index]
        traces.append(
            go.Scatter(
                x=list(use.by_phase_frac.values()),
                y=list(use.by_phase_frac),
                mode="markers",
                name=use.name,
                marker=mark,
                hovertemplate=f"{use.name} ({use.trial})<br>%{{y}}: %{{x:.1%}}<extra></extra>",
            )
        )
        if use.forecast_frac:
            traces.append(
                go.Scatter(
                    x=list(use.forecast_frac.values()),
                    y=list(use.forecast_frac),
                    mode="markers",
                    name=f"{use.name}, forecast",
                    marker={
                        "symbol": FORECAST_SYMBOLS[MARKS.index(mark)],
                        "size": 9,
                        "line": {"color": mark["color"], "width": 2},
                    },
                    hovertemplate=f"{use.name}, forecast<br>%{{y}}: %{{x:.1%}}<extra></extra>",
                )
            )
    highest = max((frac for trace in traces for frac in trace.x), default=0.0)
    shape, note = limit_line(finding.limit_frac, f"limit {percent(finding.limit_frac)}")
    return figure(
        traces,
        height=134 + 27 * len(phases),
        margin={"t": 26, "b": 104},
        xaxis=axis(range=[0, max(1.0, highest * 1.03)], tickformat=".0%", nticks=6),
        yaxis=axis(autorange="reversed", categoryorder="array", categoryarray=phases),
        legend=LEGEND_BELOW,
        shapes=[shape],
        annotations=[note],
    )
