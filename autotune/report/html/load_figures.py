"""What the ranks had to do by step, how even that was, and the lengths that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from autotune.report.findings.load import LoadFinding, StepSpreads
from autotune.report.html.plot import ACCENT, BAND, INK, LEGEND_BELOW, MUTED, axis, figure
from autotune.report.report_data import ReportData

_LOOKS: tuple[tuple[str, str, str], ...] = ((INK, "dot", "circle-open"), (ACCENT, "solid", "x-thin-open"))
"""(colour, dash, mark) of the survivor and of the fastest: never told apart by colour alone."""
_HEIGHT = 300


def load_figures(data: ReportData) -> dict[str, go.Figure]:
    """By name; none without a load, and none that has nothing to show."""
    loads = data.loads
    made = {
        "load-tokens": _spread_figure(loads, lambda load: load.tokens, "tokens per rank", from_zero=False),
        "load-samples": _spread_figure(loads, lambda load: load.samples, "samples per rank"),
        "load-micro-batches": _spread_figure(
            loads, lambda load: load.micro_batches, "micro batches per update pass"
        ),
        "load-histogram": _histogram(loads),
        "load-balance": _balance(loads),
        "load-lengths": _lengths(loads),
    }
    return {name: one for name, one in made.items() if one is not None}


def _spread_figure(
    loads: Sequence[LoadFinding],
    values: Callable[[LoadFinding], StepSpreads | None],
    what: str,
    *,
    from_zero: bool = True,
) -> go.Figure | None:
    """The mean over the ranks as a line, from the smallest to the largest as a band.

    Balanced tokens differ by so little that an axis from zero would hide it.
    """
    traces: list[Any] = []
    for load, (colour, dash, _) in zip(loads, _LOOKS, strict=False):
        spreads = values(load)
        if spreads is None:
            continue
        steps = list(spreads.steps)
        traces += [
            go.Scatter(
                x=[*steps, *reversed(steps)],
                y=[*spreads.largest, *reversed(spreads.smallest)],
                mode="lines",
                line={"color": colour, "width": 0.5},
                fill="toself",
                fillcolor=BAND,
                hoverinfo="skip",
                showlegend=False,
            ),
            go.Scatter(
                x=steps,
                y=[round(value, 1) for value in spreads.mean],
                mode="lines",
                line={"color": colour, "dash": dash, "width": 2},
                name=f"{load.name}, mean",
                text=[
                    f"{low:,} to {high:,}"
                    for low, high in zip(spreads.smallest, spreads.largest, strict=True)
                ],
                hovertemplate=f"step %{{x}}: %{{y:,}} (%{{text}})<extra>{load.name}</extra>",
            ),
        ]
    return _made(traces, "step", what, yaxis={"rangemode": "tozero" if from_zero else "normal"})


def _histogram(loads: Sequence[LoadFinding]) -> go.Figure | None:
    """Share of ranks and steps by their tokens."""
    traces = []
    for load, (colour, dash, _) in zip(loads, _LOOKS, strict=False):
        total = sum(one.count for one in load.histogram)
        if not total:
            continue
        edges = [load.histogram[0].low, *(one.high for one in load.histogram)]
        shares = [one.count / total for one in load.histogram]
        traces.append(
            go.Scatter(
                # From the axis up to each bar's height and back.
                x=[round(edge, 1) for edge in [edges[0], *edges]],
                y=[0.0, *shares, 0.0],
                mode="lines",
                line={"color": colour, "dash": dash, "width": 2, "shape": "hv"},
                fill="tozeroy",
                fillcolor=BAND,
                name=load.name,
                hovertemplate=f"from %{{x:,.0f}} tokens: %{{y:.1%}}<extra>{load.name}</extra>",
            )
        )
    return _made(traces, "tokens of a rank in a step", "share", yaxis={"tickformat": ".0%"})


def _balance(loads: Sequence[LoadFinding]) -> go.Figure | None:
    """Busiest rank over the mean, before verl's balancing and after it."""
    traces = []
    for load, (colour, dash, mark) in zip(loads, _LOOKS, strict=False):
        if load.balance is None:
            continue
        steps = list(load.balance.steps)
        traces += [
            go.Scatter(
                x=steps,
                y=[round(value, 4) for value in load.balance.before],
                mode="markers",
                marker={"color": MUTED, "symbol": mark, "size": 6, "line": {"color": MUTED, "width": 1.2}},
                name=f"{load.name}, as they arrived",
            ),
            go.Scatter(
                x=steps,
                y=[round(value, 4) for value in load.balance.after],
                mode="lines",
                line={"color": colour, "dash": dash, "width": 2},
                name=f"{load.name}, balanced",
            ),
        ]
    return _made(traces, "step", "busiest rank / mean", yaxis={"ticksuffix": "x"})


def _lengths(loads: Sequence[LoadFinding]) -> go.Figure | None:
    """Prompt against response tokens of single samples."""
    traces = [
        go.Scatter(
            x=[prompt for prompt, _ in load.lengths],
            y=[response for _, response in load.lengths],
            mode="markers",
            marker={"color": colour, "symbol": mark, "size": 5, "opacity": 0.6, "line": {"width": 1}},
            name=load.name,
            hovertemplate=f"prompt %{{x}}, response %{{y}}<extra>{load.name}</extra>",
        )
        for load, (colour, _, mark) in zip(loads, _LOOKS, strict=False)
        if load.lengths
    ]
    return _made(traces, "prompt tokens", "response tokens", yaxis={"rangemode": "tozero"})


def _made(traces: list[Any], x: str, y: str, *, yaxis: dict[str, Any]) -> go.Figure | None:
    if not traces:
        return None
    return figure(
        traces,
        height=_HEIGHT,
        margin={"t": 8, "b": 92},
        xaxis=axis(title={"text": x}),
        yaxis=axis(title={"text": y}, **yaxis),
        legend=LEGEND_BELOW,
    )
