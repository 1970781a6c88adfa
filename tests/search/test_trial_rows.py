"""The rows are those that Optuna's own calls write."""

import math
import time
from datetime import timedelta

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial
from optuna_dashboard import get_note, save_note

from autotune.search.study import open_storage
from autotune.search.trial_rows import TrialRows

SHAPES = {
    "kind": CategoricalDistribution([None, "a", 2]),
    "size": IntDistribution(1, 64, log=True),
    "share": FloatDistribution(0.1, 0.9, step=0.1),
}
PARAMS = {"kind": "a", "size": 16, "share": 0.5}


@pytest.fixture
def elsewhere(monkeypatch):
    """A time zone that is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def storage(tmp_path):
    return open_storage(f"sqlite:///{tmp_path}/job.db")


def asked():
    return create_trial(
        state=TrialState.RUNNING, params=PARAMS, distributions=SHAPES, user_attrs={"origin": "sampler"}
    )


def by_optuna(storage, curve, state, value, note):
    study = optuna.create_study(study_name="theirs", storage=storage, direction="maximize")
    study.add_trial(asked())
    (frozen,) = study.get_trials()
    trial = Trial(study, frozen._trial_id)
    for step, reported in curve.items():
        trial.report(reported, step)
    trial.set_constraint("memory", 0.25)
    trial.set_user_attr("warnings", ["noise"])
    save_note(trial, note)
    study.tell(trial, value, state=state)
    return study


def by_rows(storage, curve, state, value, note):
    study = optuna.create_study(study_name="ours", storage=storage, direction="maximize")
    rows = TrialRows(storage, study._study_id)
    trial_id, number = rows.asked(asked())
    assert number == 0
    for step, reported in curve.items():
        rows.reported(trial_id, step, reported)
    rows.told(
        trial_id,
        state,
        value,
        system_attributes={"constraints:memory": 0.25},
        user_attributes={"warnings": ["noise"]},
        note=note,
    )
    return study


def seen(study):
    (trial,) = study.get_trials()
    note = get_note(Trial(study, trial._trial_id))
    fields = ("number", "state", "values", "params", "distributions", "user_attrs", "constraints")
    curve = {step: str(value) for step, value in trial.intermediate_values.items()}
    return {**{name: getattr(trial, name) for name in fields}, "curve": curve, "note": note}


@pytest.mark.parametrize(
    ("curve", "state", "value"),
    [
        ({1: 0.5, 2: 0.75}, TrialState.COMPLETE, 1.5),
        ({1: math.nan, 2: math.inf}, TrialState.COMPLETE, -math.inf),
        ({}, TrialState.FAIL, None),
    ],
)
@pytest.mark.parametrize("note", ["**short**", "long " * 1000])
def test_optuna_reads_what_it_would_have_written(storage, curve, state, value, note):
    theirs = seen(by_optuna(storage, curve, state, value, note))
    assert seen(by_rows(storage, curve, state, value, note)) == theirs


def test_times_are_kept_as_optuna_keeps_them(elsewhere, storage):
    (theirs,) = by_optuna(storage, {}, TrialState.FAIL, None, "").get_trials()
    (ours,) = by_rows(storage, {}, TrialState.FAIL, None, "").get_trials()
    assert ours.datetime_start <= ours.datetime_complete
    assert abs(ours.datetime_start - theirs.datetime_start) < timedelta(minutes=10)


def test_numbers_count_what_others_enqueued(storage):
    study = optuna.create_study(study_name="ours", storage=storage)
    optuna.create_study(study_name="another", storage=storage).add_trial(asked())
    rows = TrialRows(storage, study._study_id)
    numbers = [rows.asked(asked())[1]]
    study.enqueue_trial({"size": 4})
    numbers += [rows.asked(asked())[1], rows.asked(asked())[1]]
    assert numbers == [0, 2, 3]


def test_a_note_replaces_one_that_was_longer(storage):
    study = optuna.create_study(study_name="ours", storage=storage)
    rows = TrialRows(storage, study._study_id)
    trial_id, _ = rows.asked(asked())
    save_note(Trial(study, trial_id), "long " * 1000)
    rows.told(trial_id, TrialState.FAIL, None, system_attributes={}, user_attributes={}, note="short")
    assert get_note(Trial(study, trial_id)) == "short"


def test_a_trial_is_told_once(storage):
    study = optuna.create_study(study_name="ours", storage=storage)
    rows = TrialRows(storage, study._study_id)
    trial_id, _ = rows.asked(asked())
    ended = {"system_attributes": {}, "user_attributes": {"origin": "again"}, "note": ""}
    rows.told(trial_id, TrialState.FAIL, None, **ended)
    with pytest.raises(ValueError, match="it is FAIL"):
        rows.told(trial_id, TrialState.COMPLETE, 1.0, **ended)
    assert study.get_trials()[0].user_attrs == {"origin": "again"}
