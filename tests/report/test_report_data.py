"""The report's data at every point of a study, from an empty database on."""

import json

import pytest

from autotune.forecast.rejection import Judgement, PhaseForecast
from autotune.records import StageName
from autotune.report.html.page import report_html
from autotune.report.report_data import read_report, report_json
from tests.report.study import OWN, SAFE, START, StudyBuilder, fill_study, finish_runs, study_job, survive


@pytest.fixture
def job(tmp_path):
    return study_job(tmp_path)


@pytest.fixture
def study(store, clock):
    return StudyBuilder(store, clock)


def read(study, job):
    data = read_report(study.store, job, study.clock.utc_now())
    json.dumps(report_json(data), allow_nan=False)
    assert report_html(data).startswith("<!doctype html>")
    return data


def test_an_empty_database(study, job):
    data = read(study, job)
    assert data.headline.word == "not confirmed"
    assert data.headline.sentence == "Nothing was tried yet."
    assert [rung.state for rung in data.rungs] == ["waiting"] * 3
    assert (data.memory, data.curves, data.changes, data.effects) == (None, None, None, None)
    assert (data.step_times, data.failures, data.ledger.gpu_s) == ((), (), 0.0)


def test_a_first_trial_in_the_air(study, job):
    study.run(StageName.SURVIVE, 0, OWN, "user configuration")
    data = read(study, job)
    assert data.headline.sentence == "Still searching for a configuration that runs."
    assert data.rungs[0].before_trial == "survive/0"
    assert data.rungs[0].after is None


def test_survive_that_found_nothing(study, job):
    study.fail(StageName.SURVIVE, 0, OWN, "user configuration")
    study.fail(StageName.SURVIVE, 1, SAFE, "repair of #0")
    study.end(StageName.SURVIVE, None, met=False, statement="no trial completed within the limits")
    data = read(study, job)
    assert data.headline.sentence == "No configuration was found that runs within the limits."
    assert data.changes is None
    assert data.failures[0].trials == ("survive/0", "survive/1")


def test_a_study_in_progress(study, job):
    survive(study)
    study.complete(StageName.SPEED, 0, START, "survivor, repeated")
    study.run(StageName.SPEED, 1, START, "survivor, repeated")
    data = read(study, job)
    assert "nothing better than the survivor in speed so far" in data.headline.sentence
    assert data.rungs[1].gain is None
    assert [times.name for times in data.step_times] == ["survivor"]
    assert data.curves.stage is StageName.SPEED
    assert data.pay_back is None


def test_trials_without_metric_rows(study, job):
    study.complete(StageName.SURVIVE, 0, OWN, "user configuration", steps=0)
    data = read(study, job)
    assert data.curves is None
    assert data.rungs[0].is_same


def test_a_finished_study(store, clock, job):
    study = fill_study(store, clock, job, sampled=1, steps=12)
    finish_runs(study)
    data = read(study, job)
    assert data.confirmed
    assert data.headline.word == "better"
    assert [rung.stage for rung in data.rungs] == [StageName.SURVIVE, StageName.SPEED, StageName.QUALITY]
    assert [trial.stage for trial in data.trials].count(StageName.FINISH) == 6
    assert sum(e.trials for e in data.ledger.entries if e.stage is StageName.FINISH) == 6
    assert report_json(data)["finish"]["outcome"] == "better"


def test_a_forecast_is_read_before_anything_is_measured(study, job):
    trial_id = study.run(StageName.SURVIVE, 0, OWN, "user configuration")
    expected = PhaseForecast(
        phase="update_actor", predicted_gb=70.0, expected_gb=64.0, sd_gb=2.0, largest_term="logits"
    )
    study.store.add_forecast(
        trial_id,
        Judgement(capacity_gb=80.0, phases=(expected,), probability_of_oom=0.01, phase="update_actor"),
    )
    (use,) = read(study, job).memory.uses
    assert (use.forecast_frac, use.by_phase_frac) == ({"update_actor": 0.8}, {})


def test_the_data_is_plain_json_with_the_stable_fields_of_trials(studied):
    answer = json.loads(json.dumps(report_json(studied), allow_nan=False))
    assert answer["headline"]["word"] == "not confirmed"
    assert answer["trials"][0]["kind"] == "oom_gpu_actor_update"
    assert answer["rungs"][1]["wanted_gain"] == 1.3
    assert "job" not in answer["provenance"]
