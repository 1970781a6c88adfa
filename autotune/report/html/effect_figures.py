"""What single changes did, with their intervals, and which parameters mattered."""

from __future__ import annotations

import plotly.graph_objects as go

from autotune.report.findings.intervals import SIGMAS
from autotune.report.html.plot import ACCENT, BAND, BEFORE, INK, MUTED, ROW_PX, axis, figure, row_labels
from autotune.report.report_data import ReportData
from autotune.report.wording import signed_percent
from autotune.search.importances import Importances

MOST_ROWS = 20


def effects_figure(data: ReportData) -> go.Figure | None:
    """Gain of each measured single change; None without one."""
    finding = data.effects
    measured = [effect for effect in finding.effects if effect.gain_frac is not None] if finding else []
    shown = measured[:MOST_ROWS]
    if finding is None or not shown:
        return None
    gains = [effect.gain_frac or 0.0 for effect in shown]
    trace = go.Scatter(
        x=gains,
        y=list(range(len(shown))),
        mode="markers",
        marker={
            "size": 11,
            "symbol": ["circle" if effect.is_clear else "circle-open" for effect in shown],
            "color": [ACCENT if effect.is_clear else BEFORE for effect in shown],
            "line": {"width": 2, "color": [ACCENT if effect.is_clear else BEFORE for effect in shown]},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [(effect.high_frac or 0.0) - gain for effect, gain in zip(shown, gains, strict=True)],
            "arrayminus": [
                gain - (effect.low_frac or 0.0) for effect, gain in zip(shown, gains, strict=True)
            ],
            "color": INK,
            "thickness": 1.3,
            "width": 4,
        },
        text=[
            f"{effect.trial}: {signed_percent(effect.gain_frac)} "
            f"({signed_percent(effect.low_frac)} to {signed_percent(effect.high_frac)})"
            for effect in shown
        ],
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )
    noise = SIGMAS * finding.noise_frac
    band = {
        "type": "rect",
        "x0": -noise,
        "x1": noise,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "fillcolor": BAND,
        "line": {"width": 0},
        "layer": "below",
    }
    labels = [f"{effect.key.rsplit('.', 1)[-1]}  {effect.before} &#8594; {effect.after}" for effect in shown]
    return figure(
        [trace],
        height=70 + ROW_PX * len(shown),
        margin={"t": 12, "b": 48},
        xaxis=axis(title={"text": "change of tokens/s/GPU"}, tickformat="+.0%", zeroline=True, nticks=7),
        yaxis=axis(range=[len(shown) - 0.5, -0.9], showticklabels=False, showgrid=False, zeroline=False),
        shapes=[band],
        annotations=row_labels(labels),
    )


def importance_figure(found: Importances) -> go.Figure | None:
    """Shares of a stage's parameters as bars; None where there are none."""
    shares = list(found.shares.items())[:MOST_ROWS]
    if not shares:
        return None
    trace = go.Bar(
        x=[share for _, share in shares],
        y=list(range(len(shares))),
        orientation="h",
        width=0.28,
        marker={"color": MUTED},
        text=[f"{share:.0%}" for _, share in shares],
        textposition="outside",
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )
    return figure(
        [trace],
        height=50 + ROW_PX * len(shares),
        margin={"t": 12, "b": 30, "r": 44},
        xaxis=axis(tickformat=".0%", rangemode="tozero", nticks=5),
        yaxis=axis(range=[len(shares) - 0.5, -0.9], showticklabels=False, showgrid=False, zeroline=False),
        annotations=row_labels([key.rsplit(".", 1)[-1] for key, _ in shares]),
    )
