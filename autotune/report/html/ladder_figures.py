"""One small picture a rung: before, after, and the line that was asked for."""

from __future__ import annotations

import plotly.graph_objects as go

from autotune.records import StageName
from autotune.report.findings.rungs import Rung
from autotune.report.html.plot import ACCENT, BEFORE, INK, PAPER, axis, figure, limit_line
from autotune.report.report_data import ReportData
from autotune.report.wording import number, percent


def rung_figures(data: ReportData) -> dict[str, go.Figure]:
    """By `rung-STAGE`; a rung that has measured nothing has no picture."""
    return {
        f"rung-{rung.stage.value}": rung_figure(rung)
        for rung in data.rungs
        if rung.before is not None or rung.after is not None
    }


def rung_figure(rung: Rung) -> go.Figure:
    """Two bars and the limit or goal."""
    of_device = rung.stage is StageName.SURVIVE
    word = percent if of_device else number
    bars = [(rung.before_name, rung.before, BEFORE, bool(rung.before_failure))]
    if not rung.is_same:
        bars.append((rung.after_name, rung.after, ACCENT, False))
    traces = [
        go.Bar(
            y=[name],
            x=[value or 0.0],
            orientation="h",
            # What failed is an empty bar: it got that far, and no further.
            marker={
                "color": "rgba(0,0,0,0)" if failed else colour,
                "line": {"color": colour, "width": 1.5},
            },
            text=[f"{word(value)}, failed" if failed else word(value)],
            textposition="auto",
            insidetextanchor="start",
            insidetextfont={"color": INK if failed else PAPER},
            outsidetextfont={"color": INK},
            hoverinfo="skip",
            showlegend=False,
        )
        for name, value, colour, failed in bars
    ]
    largest = max([value for _, value, _, _ in bars if value is not None] + [rung.wanted or 0.0])
    made = figure(
        traces,
        height=150,
        margin={"t": 26, "b": 28},
        xaxis=axis(
            range=[0, 1.0 if of_device else largest * 1.12],
            tickformat=".0%" if of_device else "",
            nticks=5,
        ),
        yaxis=axis(autorange="reversed", gridcolor="rgba(0,0,0,0)"),
    )
    if rung.wanted is not None:
        kind = "limit" if of_device else "goal"
        shape, note = limit_line(rung.wanted, f"{kind} {word(rung.wanted)}")
        made.update_layout(shapes=[shape], annotations=[note])
    return made
