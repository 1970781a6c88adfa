"""The numbers in each figure are those of the data, and every colour is one of the page's."""

import json
import re
from dataclasses import replace

import pytest

from autotune.records import StageName
from autotune.report.findings.memory import MemoryFinding
from autotune.report.html.curve_figures import kl_figure, reward_figure
from autotune.report.html.effect_figures import effects_figure, importance_figure
from autotune.report.html.ladder_figures import rung_figures
from autotune.report.html.ledger_figure import ledger_figure
from autotune.report.html.memory_figure import memory_figure
from autotune.report.html.page import report_figures
from autotune.report.html.step_figure import step_figure
from autotune.search.importances import Importances


def test_the_rungs_bars_and_goals(studied):
    figures = rung_figures(studied)
    assert list(figures) == ["rung-survive", "rung-speed", "rung-quality"]
    speed = figures["rung-speed"]
    assert [(bar.y[0], bar.x[0]) for bar in speed.data] == [
        ("survivor", studied.rungs[1].before),
        ("fastest", studied.rungs[1].after),
    ]
    assert speed.layout.shapes[0].x0 == studied.rungs[1].wanted
    assert figures["rung-survive"].data[0].text[0] == "98 %, failed"
    assert figures["rung-survive"].data[0].marker.color == "rgba(0,0,0,0)"


def test_a_rung_without_a_gain_has_one_bar(studied):
    same = replace(studied.rungs[1], is_same=True, gain=None)
    assert len(rung_figures(replace(studied, rungs=(same,)))["rung-speed"].data) == 1


def test_memory_marks_by_phase_with_the_limit(studied):
    made = memory_figure(studied)
    assert [trace.name for trace in made.data] == ["your configuration", "survivor", "fastest", "best"]
    best = studied.memory.uses[-1]
    assert dict(zip(made.data[-1].y, made.data[-1].x, strict=True)) == best.by_phase_frac
    assert made.layout.shapes[0].x0 == 0.8
    assert len({trace.marker.symbol for trace in made.data}) == 4


def test_a_forecast_stands_beside_what_was_measured(studied):
    use = replace(studied.memory.uses[1], forecast_frac={"rollout": 1.2})
    made = memory_figure(replace(studied, memory=MemoryFinding(limit_frac=0.8, uses=(use,))))
    assert [trace.name for trace in made.data] == ["survivor", "survivor, forecast"]
    assert made.layout.xaxis.range[1] > 1.2
    assert made.data[1].marker.line.color == made.data[0].marker.color


def test_forecasts_are_told_apart_by_shape(studied):
    uses = tuple(replace(use, forecast_frac={"rollout": 0.5}) for use in studied.memory.uses)
    made = memory_figure(replace(studied, memory=replace(studied.memory, uses=uses)))
    assert len({trace.marker.symbol for trace in made.data}) == 2 * len(uses) == 8


def test_step_time_by_phase(studied):
    made = step_figure(studied)
    by_name = {trace.name: trace for trace in made.data}
    assert list(by_name["generation"].y) == ["survivor", "fastest"]
    assert list(by_name["generation"].x) == [times.by_phase_s["rollout"] for times in studied.step_times]
    total = sum(trace.x[0] for trace in made.data)
    assert total == pytest.approx(studied.step_times[0].step_s, rel=0.02)


def test_reward_and_kl_over_the_band(studied):
    reward, kl = reward_figure(studied), kl_figure(studied)
    assert [trace.name for trace in reward.data] == [
        "5 other trials",
        "fastest (quality/0)",
        "best (quality/1)",
    ]
    assert tuple(reward.data[2].y) == studied.curves.named[1].reward
    assert (kl.layout.shapes[0].y0, kl.layout.shapes[0].y1) == (0.05, 0.12)
    assert reward.data[1].line.dash != reward.data[2].line.dash


def test_the_background_is_one_line_with_gaps(studied):
    trace = reward_figure(studied).data[0]
    assert trace.x.count(None) == len(studied.curves.others)
    assert len(trace.x) == len(trace.y) == len(trace.text)


def test_effects_with_their_intervals(studied):
    made = effects_figure(studied)
    measured = [effect for effect in studied.effects.effects if effect.gain_frac is not None]
    assert list(made.data[0].x) == [effect.gain_frac for effect in measured]
    assert made.data[0].error_x.array[0] == pytest.approx(measured[0].high_frac - measured[0].gain_frac)
    assert made.data[0].marker.symbol[-1] == "circle-open"
    assert "ppo_micro_batch_size_per_gpu" in made.layout.annotations[1].text


def test_importances_largest_first():
    shares = {"actor_rollout_ref.actor.optim.lr": 0.7, "actor_rollout_ref.actor.kl_loss_coef": 0.3}
    found = Importances(stage=StageName.QUALITY, trials=12, shares=shares)
    made = importance_figure(found)
    assert list(made.data[0].x) == [0.7, 0.3]
    assert [note.text for note in made.layout.annotations] == ["lr", "kl_loss_coef"]
    assert importance_figure(replace(found, shares={})) is None


def test_hours_by_stage_and_outcome(studied):
    made = ledger_figure(studied)
    assert sum(sum(trace.x) for trace in made.data) == pytest.approx(studied.ledger.gpu_s / 3600)
    assert {trace.name for trace in made.data} == {"completed", "failed"}
    assert len({trace.marker.pattern.shape for trace in made.data}) == 2


def test_no_figure_knows_a_colour_of_its_own(studied):
    text = json.dumps({name: made.to_plotly_json() for name, made in report_figures(studied).items()})
    assert len(report_figures(studied)) == 9
    assert re.findall(r'"(?:#[0-9a-fA-F]{3,6}|rgb\([^)]*\))"', text) == []
