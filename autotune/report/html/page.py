"""The report as one HTML file: the template filled in, with style, script and plotly's JavaScript inside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from autotune.judge.comparison import MEMORY, SPEED
from autotune.ladder.finish_words import NAMES
from autotune.ladder.speed import LEAST_NOISE_FRAC
from autotune.report.html.curve_figures import kl_figure, reward_figure
from autotune.report.html.effect_figures import effects_figure, importance_figure
from autotune.report.html.ladder_figures import rung_figures
from autotune.report.html.ledger_figure import ledger_figure
from autotune.report.html.load_figures import load_figures
from autotune.report.html.memory_figure import memory_figure
from autotune.report.html.step_figure import PHASE_WORDS, step_figure
from autotune.report.html.trial_lines import trial_lines
from autotune.report.ledger import savings_gpu_s
from autotune.report.report_data import ReportData
from autotune.report.wording import (
    counted,
    factor,
    gigabytes,
    number,
    percent,
    seconds,
    short_key,
    signed_percent,
    strict,
    value_text,
)

_JOINT = re.compile(r"(?<=[A-Za-z])([._])(?=[A-Za-z])")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:GB|s|min|h)\b|%)")
_TEMPLATES = PackageLoader("autotune.report.html", "templates")


def report_html(data: ReportData) -> str:
    """The whole page; it asks the network for nothing."""
    environment = Environment(
        loader=_TEMPLATES, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        breakable=breakable,
        factor=factor,
        gain=lambda gain, metric: unbroken(gain_text(gain, metric)),
        gigabytes=lambda value_gb: unbroken(gigabytes(value_gb)),
        number=number,
        percent=lambda fraction: unbroken(percent(fraction)),
        seconds=lambda value_s: unbroken(seconds(value_s)),
        short_key=short_key,
        signed_percent=lambda fraction: unbroken(signed_percent(fraction)),
        unbroken=unbroken,
        value=value_text,
    )
    figures = report_figures(data)
    return environment.get_template("report.html.jinja").render(
        data=data,
        figures=figures,
        lines=trial_lines(data),
        phase_words=PHASE_WORDS,
        hours="GPU hours" if data.device == "gpu" else "device hours",
        least_noise_frac=LEAST_NOISE_FRAC,
        measure_names=NAMES,
        savings=savings_gpu_s(data.ledger),
        gpus=counted(data.provenance.get("gpus")),
        style=_source(environment, "report.css"),
        script=_source(environment, "report.js"),
        figures_json=Markup(figures_json(figures)),
        plotly=Markup(get_plotlyjs()),
    )


def report_figures(data: ReportData) -> dict[str, go.Figure]:
    """Every figure that this data allows, by the name that the template asks for."""
    wanted: dict[str, go.Figure | None] = {
        **rung_figures(data),
        "memory": memory_figure(data),
        "steps": step_figure(data),
        **load_figures(data),
        "reward": reward_figure(data),
        "kl": kl_figure(data),
        "effects": effects_figure(data),
        **{f"importance-{found.stage.value}": importance_figure(found) for found in data.importances},
        "ledger": ledger_figure(data),
    }
    return {name: figure for name, figure in wanted.items() if figure is not None}


def figures_json(figures: Mapping[str, go.Figure]) -> str:
    """The figures for a `script` element: strict JSON in ASCII in which no tag can begin or end."""
    plain = {name: strict(figure.to_plotly_json()) for name, figure in figures.items()}
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def gain_text(gain: float, metric: str) -> str:
    """A gain of the finish in its metric's unit: `+32.1 %`, `+0.012`, `-1.2 GB`."""
    if metric == SPEED:
        return signed_percent(gain)
    return f"{gain:+.3f}" + (" GB" if metric == MEMORY else "")


def breakable(text: str) -> Markup:
    """The same, where a line may end after each dot and underscore of a key."""
    return Markup(_JOINT.sub(r"\1<wbr>", str(escape(text))))


def unbroken(text: str) -> str:
    """The same with spaces before `%` and units at which no line ends."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def _source(environment: Environment, name: str) -> Markup:
    """A file of the templates' folder as it is."""
    assert environment.loader is not None
    text: Any = environment.loader.get_source(environment, name)[0]
    return Markup(text)
