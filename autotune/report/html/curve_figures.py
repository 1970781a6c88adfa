"""Reward and KL over the steps: named trials as lines, the others as one pale background."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from autotune.report.findings.curves import Curve, CurvesFinding
from autotune.report.html.plot import ACCENT, BAND, INK, MUTED, axis, figure
from autotune.report.report_data import ReportData

Values = Callable[[Curve], Sequence[float | None]]

_LINES = (
    {"color": INK, "width": 1.8, "dash": "dot"},
    {"color": ACCENT, "width": 2.6},
)
"""Baseline, best: told apart by dash as well as by colour."""


def reward_figure(data: ReportData) -> go.Figure | None:
    """Reward by step; None without a curve."""
    finding = data.curves
    if finding is None:
        return None
    return _curves(finding, lambda curve: curve.reward, "reward", legend=True)


def kl_figure(data: ReportData) -> go.Figure | None:
    """KL to the reference by step, over the wanted band; None where verl logged none."""
    finding = data.curves
    if finding is None or not _has_values([*finding.named, *finding.others], lambda curve: curve.kl):
        return None
    made = _curves(finding, lambda curve: curve.kl, "KL", legend=False)
    if finding.kl_band is not None:
        low, high = finding.kl_band
        made.add_shape(
            type="rect",
            xref="paper",
            x0=0,
            x1=1,
            y0=low,
            y1=high,
            fillcolor=BAND,
            line={"width": 0},
            layer="below",
        )
        made.add_annotation(
            xref="paper",
            x=0.01,
            xanchor="left",
            y=high,
            yanchor="bottom",
            showarrow=False,
            text=f"wanted at the end: {low:g} to {high:g}",
            font={"size": 12},
        )
    return made


def _has_values(curves: Sequence[Curve], values: Values) -> bool:
    return any(value is not None for curve in curves for value in values(curve))


def _curves(finding: CurvesFinding, values: Values, title: str, *, legend: bool) -> go.Figure:
    traces = []
    if finding.others:
        traces.append(_background(finding.others, values))
    for index, curve in enumerate(finding.named):
        line = _LINES[1] if index == len(finding.named) - 1 and index > 0 else _LINES[0]
        traces.append(
            go.Scatter(
                x=list(curve.steps),
                y=list(values(curve)),
                mode="lines",
                name=f"{curve.name} ({curve.trial})",
                line=line,
                hovertemplate=f"{curve.trial} step %{{x}}: %{{y:.4g}}<extra>{curve.name}</extra>",
            )
        )
    return figure(
        traces,
        height=330 if legend else 300,
        margin={"t": 40 if legend else 12, "b": 44, "r": 8},
        showlegend=legend,
        xaxis=axis(title={"text": "step"}, showgrid=False),
        yaxis=axis(title={"text": title}, rangemode="tozero"),
    )


def _background(curves: Sequence[Curve], values: Values) -> go.Scatter:
    """All other trials in one trace, with a gap after each."""
    steps: list[int | None] = []
    shown: list[float | None] = []
    names: list[str] = []
    for curve in curves:
        steps += [*curve.steps, None]
        shown += [*values(curve), None]
        names += [curve.trial] * (len(curve.steps) + 1)
    return go.Scatter(
        x=steps,
        y=shown,
        text=names,
        mode="lines",
        name=f"{len(curves)} other trials" if len(curves) > 1 else "1 other trial",
        line={"color": MUTED, "width": 1},
        opacity=0.55,
        hovertemplate="%{text} step %{x}: %{y:.4g}<extra></extra>",
    )
