"""What all figures have in common.

Colours are names of the page's CSS variables: the page fills them in for a light, a dark or a printed
sheet, so a figure knows no colour of its own.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

INK, SOFT, LINE, PAPER = "var(--ink)", "var(--soft)", "var(--line)", "var(--paper)"
ACCENT, BEFORE, BAND, LIMIT = "var(--accent)", "var(--before)", "var(--band)", "var(--limit)"
GOOD, BAD, MUTED = "var(--good)", "var(--bad)", "var(--muted)"
SERIES = tuple(f"var(--series-{index})" for index in range(1, 9))
"""Eight that are told apart in order of lightness as well as of hue."""

ROW_PX = 46
LEGEND_BELOW = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
"""At the foot of the figure, in as many rows as a narrow page makes of it."""


def figure(
    traces: list[Any], *, height: int, margin: dict[str, int] | None = None, **layout: Any
) -> go.Figure:
    """A figure in the page's type, without a frame, that takes the width it is given."""
    made = go.Figure(data=traces)
    made.update_layout(
        template=go.layout.Template(),
        height=height,
        margin={"l": 8, "r": 16, "t": 8, "b": 36, **(margin or {})},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 13},
        hoverlabel={"bgcolor": PAPER, "bordercolor": LINE, "font": {"color": INK}},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": INK}},
        bargap=0.35,
    )
    made.update_layout(**layout)
    return made


def axis(**more: Any) -> dict[str, Any]:
    """An axis with hairlines for a grid; nothing is zoomed, so that a page scrolls under a finger."""
    title = {"font": {"color": SOFT, "size": 12}, "standoff": 6, **more.pop("title", {})}
    return {
        "gridcolor": LINE,
        "zerolinecolor": LINE,
        "linecolor": LINE,
        "tickfont": {"color": SOFT},
        "title": title,
        "automargin": True,
        "fixedrange": True,
        **more,
    }


def pattern(shape: str) -> dict[str, Any]:
    """A bar's pattern in the paper's colour over its own: what is not told by colour alone."""
    return {"shape": shape, "fgcolor": PAPER, "fillmode": "overlay", "size": 6, "solidity": 0.25}


def row_labels(labels: list[str], *, side: float = 0.0) -> list[dict[str, Any]]:
    """A line of text above each row of a plot, which leaves a narrow page its whole width."""
    return [
        {
            "xref": "paper",
            "x": side,
            "xanchor": "left",
            "yref": "y",
            "y": index,
            "yanchor": "bottom",
            "yshift": 9,
            "text": label,
            "showarrow": False,
            "align": "left",
            "font": {"color": INK, "size": 12},
        }
        for index, label in enumerate(labels)
    ]


def limit_line(value: float, text: str, *, axis_name: str = "x") -> tuple[dict[str, Any], dict[str, Any]]:
    """(shape, annotation) of a dashed line across the plot at `value`."""
    other = "y" if axis_name == "x" else "x"
    shape = {
        "type": "line",
        f"{axis_name}0": value,
        f"{axis_name}1": value,
        f"{axis_name}ref": axis_name,
        f"{other}0": 0,
        f"{other}1": 1,
        f"{other}ref": "paper",
        "line": {"color": LIMIT, "width": 1.5, "dash": "dash"},
    }
    note = {
        axis_name: value,
        f"{axis_name}ref": axis_name,
        other: 1,
        f"{other}ref": "paper",
        "text": text,
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom",
        "font": {"color": LIMIT, "size": 12},
    }
    return shape, note
