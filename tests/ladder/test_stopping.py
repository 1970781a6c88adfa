"""When another sampled trial no longer pays for itself."""

import pytest

from autotune.ladder.quality import next_move as quality_move
from autotune.ladder.speed import next_move as speed_move
from autotune.ladder.stopping import expected_saving_s, history, trial_s, why_to_stop
from autotune.ladder.view import Finish, Sample
from tests.ladder.builders import SURVIVOR, failed, learned, quality_view, ran, speed_view, trial

NOISE = 0.02
TIMES = {"step_s": 10.0, "start_s": 60.0}


def sampled(number, speed, **more):
    return ran(number, {**SURVIVOR, "share": 0.3 + number / 1000}, speed, **{**TIMES, **more})


def stage(*speeds, **section):
    first = (ran(0, SURVIVOR, 1000.0, origin="survivor, repeated", **TIMES),)
    trials = [sampled(number, speed) for number, speed in enumerate(speeds, 1)]
    return speed_view(*first, *trials, **{"trials": 100, **section})


def test_history_counts_what_the_noise_cannot_explain():
    view = stage(1500.0, 1510.0, 1200.0, 1800.0, 1790.0)
    past = history(view, NOISE)
    assert past.gains == pytest.approx((0.5, 290.0 / 1510.0))
    assert past.dry == 1
    assert trial_s(view) == 60.0 + 6 * 10.0


@pytest.mark.parametrize(
    ("speeds", "section", "stops"),
    [
        ([900.0] * 3, {"patience": 3}, True),
        ([900.0] * 2, {"patience": 3}, False),
        ([900.0, 900.0, 1500.0], {"patience": 3}, False),
        ([1010.0, 1020.0, 1030.0], {"patience": 3}, True),  # each within the noise of the best before
        ([900.0] * 50, {"patience": None}, False),
        # A gain of 20 % on average, once in 5: 3600 h of training are worth it, a tenth of an hour is not.
        ([1200.0, 900.0, 900.0, 900.0], {"patience": 3, "training_hours": 3600.0}, False),
        ([1200.0, 900.0, 900.0, 900.0], {"patience": 3, "training_hours": 0.1}, True),
    ],
)
def test_search_ends_when_it_stopped_gaining_and_cannot_pay(speeds, section, stops):
    assert (why_to_stop(stage(*speeds, **section), NOISE) is not None) is stops


def test_trials_ended_by_others_and_single_changes_are_no_dry_ones():
    changed = ran(3, {**SURVIVOR, "micro": 4}, 900.0, origin="one change from #0: micro 2 -> 4")
    void = trial(2, {**SURVIVOR, "share": 0.9}, failed("port_conflict"))
    lost = trial(4, {**SURVIVOR, "share": 0.8}, failed("oom_gpu_actor_update"))
    view = speed_view(
        ran(0, SURVIVOR, 1000.0, origin="survivor, repeated"), sampled(1, 900.0), void, changed, lost
    )
    assert history(view, NOISE).dry == 2


def test_the_expected_saving_is_chance_times_gain_times_training():
    past = history(stage(1250.0, 900.0, 900.0), NOISE)
    assert expected_saving_s(past, NOISE, 10.0) == pytest.approx(36_000.0 * 0.2 / 4)
    assert expected_saving_s(past, NOISE, None) is None


def test_speed_finishes_with_the_reason():
    view = stage(*[900.0] * 12)
    tried = [
        ran(50 + n, {**SURVIVOR, key: value}, 900.0, origin=f"one change from #0: {key} x -> {value}")
        for n, (key, value) in enumerate(
            [("micro", 4), ("micro", 1), ("dynamic", True), ("share", 0.6), ("share", 0.4)]
        )
    ]
    section = {"trials": 100, "baseline_repeats": 1, "baseline_every": None}
    view = speed_view(*view.trials, *tried, patience=12, **section)
    assert speed_move(view) == Finish(
        "12 sampled trials in a row brought no gain over the noise (patience 12)"
    )
    assert speed_move(speed_view(*view.trials, patience=13, **section)) == Sample()


def test_quality_finishes_too():
    flat = [0.5] * 20
    trials = [
        learned(n, {"actor_rollout_ref.actor.optim.lr": 1e-7 * n}, flat, kls=(0.08,) * 20)
        for n in range(1, 8)
    ]
    start = learned(0, quality_view().start.params, flat, kls=(0.08,) * 20, origin="fastest")
    assert isinstance(quality_move(quality_view(start, *trials, trials=100, patience=7)), Finish)
