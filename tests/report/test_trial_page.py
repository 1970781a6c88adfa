"""`show`: why a trial ended, with its evidence."""

import json
import re

import pytest

from autotune.errors import InputError
from autotune.forecast.rejection import Judgement, PhaseForecast
from autotune.records import AttemptRole, MetricRow, StageName
from autotune.report.sparkline import BARS
from autotune.report.trial_page import find_trial, read_trial_page, trial_page, trial_page_json
from tests.report.conftest import FITS, begin_trial, end_trial


def page_of(store, stage, number):
    return read_trial_page(store, store.trial(stage, number))


def test_a_failed_trial_shows_its_decisive_line(climbed, printed):
    text = printed(trial_page(page_of(climbed, StageName.SURVIVE, 1)))
    assert "ended by oom_gpu_actor_update during update_actor: the actor update asked" in text
    assert "line 812: torch.OutOfMemoryError: [/red] tried to allocate 2.3 GB" in text
    assert "ended, 3 min 00 s, exit code 1" in text
    assert "survive-1-0/console.log" in text
    assert "metrics.jsonl" not in text


def test_a_completed_trial_shows_curves_and_memory(climbed, printed):
    text = printed(trial_page(page_of(climbed, StageName.SURVIVE, 0)))
    assert f"{BARS[0]}{BARS[2]}{BARS[5]}{BARS[7]}  0.25 .. 1 in 4 steps" in text
    assert f"{BARS[4]}x{BARS[4]}{BARS[4]}  0.1 .. 0.1 in 4 steps" in text
    assert text.index("update_actor") < text.index("rollout ")
    assert "72 % (57.2 GB)" in text
    assert "note: 12 % of the responses were clipped" in text


def test_the_forecast_stands_against_what_was_measured(store, clock, tmp_path, printed):
    trial_id = begin_trial(store, clock, StageName.SURVIVE, 0, tmp_path)
    phases = tuple(
        PhaseForecast(phase=phase, predicted_gb=gb, expected_gb=gb + 1.0, sd_gb=3.0, largest_term="logits")
        for phase, gb in (("update_actor", 55.0), ("values", 20.0))
    )
    store.add_forecast(
        trial_id,
        Judgement(
            capacity_gb=80.0, phases=phases, probability_of_oom=0.02, phase="update_actor", measurements=4
        ),
    )
    end_trial(store, clock, trial_id, StageName.SURVIVE, 0, FITS)
    page = page_of(store, StageName.SURVIVE, 0)
    text = printed(trial_page(page))
    assert re.search(r"update_actor +56\.0 \+- 3\.00 GB +measured 57\.2 GB +logits most", text)
    assert re.search(r"values +21\.0 \+- 3\.00 GB +not measured", text)
    assert "2 % likely to run out of 80.0 GB, in update_actor; corrected by 4 measured peaks" in text
    answer = trial_page_json(page)["forecast"]
    assert answer["phases"][0]["predicted_gb"] == 55.0
    assert answer["phases"][0]["measured_gb"] == pytest.approx(57.2)
    assert answer["phases"][1]["measured_gb"] is None


def test_a_trial_without_a_forecast_says_nothing_of_it(climbed, printed):
    page = page_of(climbed, StageName.SURVIVE, 0)
    assert "forecast" not in printed(trial_page(page))
    assert trial_page_json(page)["forecast"] is None


def test_a_running_trial_has_a_page(climbed, printed):
    text = printed(trial_page(page_of(climbed, StageName.SPEED, 0)))
    assert "still running" in text
    assert "0 measure" in text


def test_a_certificate_does_not_hide_the_curve(store, clock, climbed):
    trial = climbed.trial(StageName.SPEED, 0)
    for attempt_id, role, index, steps in (
        ("m", AttemptRole.MEASURE, 1, 4),
        ("c", AttemptRole.CERTIFICATE, 2, 2),
    ):
        store.start_attempt(
            trial.id, attempt_id=attempt_id, index=index, role=role, folder="f", at_utc=clock.utc_now()
        )
        rows = [MetricRow(step=step, at_s=step, values={"r": 1.0}) for step in range(1, steps + 1)]
        store.add_events(attempt_id, rows, clock.utc_now())
    assert len(read_trial_page(store, trial).rows) == 4


def test_the_page_as_json_keeps_the_stable_fields(climbed):
    answer = json.loads(json.dumps(trial_page_json(page_of(climbed, StageName.SURVIVE, 1)), allow_nan=False))
    assert (answer["stage"], answer["number"], answer["kind"]) == ("survive", 1, "oom_gpu_actor_update")
    assert answer["line"]["number"] == 812
    assert answer["phase"] == "update_actor"
    assert answer["curves"] == {"critic/rewards/mean": [0.25], "actor/kl_loss": [0.1]}
    assert answer["attempts"][0]["exit_code"] == 1


@pytest.mark.parametrize(
    ("reference", "found"), [("survive/1", ("survive", 1)), ("speed-0", ("speed", 0)), ("1", ("survive", 1))]
)
def test_a_trial_is_found_by_name_or_by_a_number_of_one_stage(climbed, reference, found):
    trial = find_trial(climbed.trials(), reference)
    assert (trial.stage.value, trial.number) == found


@pytest.mark.parametrize(
    ("reference", "says"), [("0", "survive/0, speed/0"), ("7", "no stage has"), ("speed", "no stage has")]
)
def test_a_reference_that_is_not_one_trial(climbed, reference, says):
    with pytest.raises(InputError, match=says):
        find_trial(climbed.trials(), reference)
