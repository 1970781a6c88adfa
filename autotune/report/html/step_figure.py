"""Where a step's time goes, one stacked bar a configuration."""

from __future__ import annotations

import plotly.graph_objects as go

from autotune.judge.phases import STEP_PHASES
from autotune.report.findings.step_times import OTHER
from autotune.report.html.plot import LEGEND_BELOW, MUTED, PAPER, SERIES, axis, figure
from autotune.report.report_data import ReportData
from autotune.report.wording import number

PHASE_WORDS = {
    "rollout": "generation",
    "reward": "reward",
    "old_log_prob": "log-prob",
    "ref_log_prob": "reference",
    "values": "critic values",
    "advantage": "advantage",
    "update_critic": "critic update",
    "update_actor": "actor update",
    "weight_sync": "weight sync",
    "checkpoint": "checkpoint",
    OTHER: "other",
}
_BAR_PX = 56
_LEAST_SHARE = 0.01
_COLOURS = dict(
    zip(
        (
            "rollout",
            "old_log_prob",
            "ref_log_prob",
            "update_actor",
            "weight_sync",
            "values",
            "update_critic",
            "advantage",
        ),
        SERIES,
        strict=False,
    )
)


def step_figure(data: ReportData) -> go.Figure | None:
    """Seconds of a median step by phase; None where no timers were logged."""
    times = data.step_times
    if not times:
        return None
    present = {phase for one in times for phase in one.by_phase_s}
    traces = []
    for phase in [*(phase for phase in STEP_PHASES if phase in present), OTHER]:
        if all(one.by_phase_s.get(phase, 0.0) < _LEAST_SHARE * one.step_s for one in times):
            continue  # too thin to see; the table has it
        seconds = [one.by_phase_s.get(phase, 0.0) for one in times]
        traces.append(
            go.Bar(
                y=[one.name for one in times],
                x=seconds,
                orientation="h",
                name=PHASE_WORDS.get(phase, phase),
                marker={"color": _COLOURS.get(phase, MUTED), "line": {"color": PAPER, "width": 1.5}},
                text=[f"{PHASE_WORDS.get(phase, phase)} {number(round(value, 2))} s" for value in seconds],
                textposition="inside",
                insidetextanchor="middle",
                textfont={"color": PAPER},
                hovertemplate=f"{PHASE_WORDS.get(phase, phase)}: %{{x:.3g}} s<extra>%{{y}}</extra>",
            )
        )
    return figure(
        traces,
        height=126 + _BAR_PX * len(times),
        margin={"t": 8, "b": 96},
        barmode="stack",
        xaxis=axis(rangemode="tozero", ticksuffix=" s"),
        yaxis=axis(autorange="reversed", gridcolor="rgba(0,0,0,0)"),
        uniformtext={"mode": "hide", "minsize": 11},
        legend={**LEGEND_BELOW, "traceorder": "normal"},
    )
