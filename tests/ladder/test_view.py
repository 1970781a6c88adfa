"""What counts as tried, running, ended and void."""

import random
from dataclasses import replace

import pytest

from autotune.records import Candidate, Outcome, Verdict
from tests.ladder.builders import SURVIVOR, completed, failed, figures, speed_view, trial


@pytest.mark.parametrize(
    ("verdict", "void", "complete"),
    [
        (None, False, False),
        (completed(), False, True),
        (failed("nan_inf"), False, False),
        (failed("port_conflict"), True, False),
        (failed("input_missing"), True, False),
        (Verdict(outcome=Outcome.REJECTED, figures=figures(0)), False, False),
        (Verdict(outcome=Outcome.STOPPED, figures=figures(2)), True, False),
    ],
)
def test_a_trial_says_something_of_its_configuration_unless_others_ended_it(verdict, void, complete):
    view = trial(0, SURVIVOR, verdict)
    assert (view.is_void, view.is_complete) == (void, complete)
    assert list(speed_view(view).tried) == ([] if void else [SURVIVOR])


def test_running_and_ended_share_the_trials():
    trials = (trial(0, SURVIVOR, completed()), trial(1, SURVIVOR), trial(2, SURVIVOR, failed("nan_inf")))
    view = speed_view(*trials)
    assert [t.number for t in view.running] == [1]
    assert [t.number for t in view.ended] == [0, 2]


def test_has_tried_takes_floats_as_they_are_meant():
    view = speed_view(trial(0, {**SURVIVOR, "share": 0.1 + 0.2}))
    assert view.has_tried(Candidate(params={**SURVIVOR, "share": 0.3}, origin=""))
    assert not view.has_tried(Candidate(params=SURVIVOR, origin=""))


@pytest.mark.parametrize("first", [(SURVIVOR, {**SURVIVOR, "micro": 4}), ()])
def test_the_start_is_the_best_carried_over_or_the_users_own(first):
    view = speed_view(first=first)
    assert view.start.params == SURVIVOR
    assert view.is_start(trial(0, SURVIVOR))
    assert not view.is_start(trial(0, {**SURVIVOR, "micro": 4}))


def test_rejected_trials_cost_nothing_up_to_a_multiple_of_the_stage():
    rejected = Verdict(outcome=Outcome.REJECTED, figures=figures(0))
    view = speed_view(trial(0, SURVIVOR, completed()), trial(1, SURVIVOR, rejected), trials=2)
    assert view.rejected == 1
    assert not view.is_full
    assert speed_view(*(trial(n, SURVIVOR, rejected) for n in range(10)), trials=2).is_full
    assert not speed_view(*(trial(n, SURVIVOR, rejected) for n in range(9)), trials=2).is_full


def test_void_trials_use_up_the_stage_too():
    assert speed_view(trial(0, SURVIVOR, failed("port_conflict")), trials=1).is_full


def test_a_view_that_grew_trial_by_trial_is_the_one_made_at_once():
    chance = random.Random(1)
    rejected = Verdict(outcome=Outcome.REJECTED, figures=figures(0))
    verdicts = (completed(), completed(), failed("nan_inf"), failed("port_conflict"), rejected)
    points = (SURVIVOR, {**SURVIVOR, "micro": 4}, {**SURVIVOR, "share": 0.3})
    grown, trials = speed_view(), {}
    for number in range(60):
        trials[number] = trial(number, chance.choice(points))
        grown = grown.with_trial(trials[number])
        for running in chance.sample(grown.running, len(grown.running) // 2):
            trials[running.number] = replace(running, verdict=chance.choice(verdicts))
            grown = grown.with_trial(trials[running.number])
        whole = speed_view(*trials.values())
        assert grown == whole
        for name in ("running", "ended", "repeats", "rejected"):
            assert getattr(grown, name) == getattr(whole, name)
        assert sorted(map(str, grown.tried)) == sorted(map(str, whole.tried))
        assert all((point in grown.tried) is (point in whole.tried) for point in points)
        assert all(grown.trial(one) is trials[one] for one in trials)
    assert grown.find(60) is None
