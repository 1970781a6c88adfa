"""Stage speed: the noise floor, one change at a time, then joint search; and its acceptance."""

import math

import pytest

from autotune.ladder.acceptance import stage_result
from autotune.ladder.speed import LEAST_NOISE_FRAC, baseline, incumbent, next_move
from autotune.ladder.view import Finish, Propose, Sample, Wait
from tests.ladder.builders import SURVIVOR, failed, ran, speed_view, trial

REPEATS = (ran(0, SURVIVOR, 1000.0), ran(1, SURVIVOR, 1010.0))
NOISE = 0.02


def with_(**changes):
    return {**SURVIVOR, **changes}


def one_change(start, key):
    return f"one change from #{start}: {key} a -> b"


def proposed(view):
    move = next_move(view)
    assert isinstance(move, Propose), move
    return move.candidate


def test_the_survivor_is_repeated_first():
    assert proposed(speed_view()).params == SURVIVOR
    assert proposed(speed_view(REPEATS[0])).params == SURVIVOR
    assert proposed(speed_view(*REPEATS, baseline_repeats=3)).params == SURVIVOR
    assert proposed(speed_view(trial(0, SURVIVOR), baseline_repeats=2)).params == SURVIVOR


def test_a_void_repeat_does_not_count():
    void = trial(1, SURVIVOR, failed("port_conflict"))
    assert proposed(speed_view(REPEATS[0], void)).params == SURVIVOR


def test_nothing_carried_over_is_the_users_configuration():
    view = speed_view(first=())
    assert proposed(view).params == SURVIVOR
    assert baseline(view) is None


def test_other_survivors_follow_the_repeats():
    assert proposed(speed_view(*REPEATS, first=(SURVIVOR, with_(micro=4)))).params == with_(micro=4)


def test_without_a_measured_survivor_it_waits_then_ends():
    flying = [trial(0, SURVIVOR), trial(1, SURVIVOR)]
    assert next_move(speed_view(*flying)) == Wait()
    dead = [trial(n, SURVIVOR, failed("oom_gpu_actor_update")) for n in (0, 1)]
    assert isinstance(next_move(speed_view(*dead)), Finish)


@pytest.mark.parametrize(
    ("speeds", "within", "steps", "expected"),
    [
        ((1000.0, 1010.0), 0.0, 6, LEAST_NOISE_FRAC),
        ((1000.0, 1113.0), 0.0, 6, 113 / 1056.5 / 1.12838),
        # The first step is warm-up and not measured.
        ((1000.0, 1000.0), 0.12, 10, 0.04),
        ((1000.0,), 0.06, 5, 0.03),
    ],
)
def test_noise_floor(speeds, within, steps, expected):
    repeats = [
        ran(n, SURVIVOR, speed, tokens_per_s_noise_frac=within, steps=steps, warmup_steps=1)
        for n, speed in enumerate(speeds)
    ]
    found = baseline(speed_view(*repeats))
    assert found.throughput_noise_frac == pytest.approx(expected, rel=1e-5)
    assert found.repeats == len(speeds)


def test_the_baseline_is_the_median_of_its_repeats():
    speeds = (900.0, 1000.0, 1300.0)
    repeats = [ran(n, SURVIVOR, speed, reward=0.1 * n, steps=6) for n, speed in enumerate(speeds)]
    found = baseline(speed_view(*repeats, ran(3, with_(micro=4), 2000.0))).figures
    assert (found.tokens_per_s_per_gpu, found.reward) == (1000.0, 0.1)
    found = baseline(speed_view(*repeats[:2])).figures
    assert (found.tokens_per_s_per_gpu, found.reward) == (950.0, 0.0)


def test_the_scatter_of_the_reward_is_that_of_all_repeats():
    scatters = ((0.1, 6), (0.2, 10), (None, 4))
    repeats = [
        ran(n, SURVIVOR, 900.0, reward_std=std, steps=steps) for n, (std, steps) in enumerate(scatters)
    ]
    found = baseline(speed_view(*repeats))
    assert found.reward_std_degrees == 4 + 8
    assert found.figures.reward_std == pytest.approx(math.sqrt((4 * 0.1**2 + 8 * 0.2**2) / 12))


def test_one_change_at_a_time_in_the_checklists_order():
    trials = list(REPEATS)
    seen = []
    for number in range(2, 7):
        candidate = proposed(speed_view(*trials))
        seen.append({k: v for k, v in candidate.params.items() if v != SURVIVOR[k]})
        assert candidate.origin.startswith("one change from #0: ")
        trials.append(ran(number, candidate.params, 1000.0, origin=candidate.origin))
    assert seen == [{"micro": 4}, {"micro": 1}, {"dynamic": True}, {"share": 0.6}, {"share": 0.4}]
    assert next_move(speed_view(*trials)) == Sample()


def test_an_improvement_is_followed_in_its_direction():
    better = ran(2, with_(micro=4), 1100.0, origin=one_change(0, "micro"))
    assert proposed(speed_view(*REPEATS, better)).params == with_(micro=8)
    still = ran(3, with_(micro=8), 1200.0, origin=one_change(2, "micro"))
    assert proposed(speed_view(*REPEATS, better, still)).params == with_(micro=16)


def test_a_direction_that_lost_is_left_and_not_tried_again_from_the_next_incumbent():
    trials = (
        *REPEATS,
        ran(2, with_(micro=4), 1100.0, origin=one_change(0, "micro")),
        trial(3, with_(micro=8), failed("oom_gpu_actor_update"), origin=one_change(2, "micro")),
        ran(4, with_(micro=4, dynamic=True), 1300.0, origin=one_change(2, "dynamic")),
    )
    # Neither micro 8, which ran out of memory, nor micro 2, which was slower, is asked for once more.
    assert proposed(speed_view(*trials)).params == {"micro": 4, "dynamic": True, "share": 0.6}


def test_of_two_improvements_side_by_side_the_smaller_one_is_tried_on_top():
    trials = (
        *REPEATS,
        ran(2, with_(micro=4), 1300.0, origin=one_change(0, "micro")),
        ran(3, with_(dynamic=True), 1200.0, origin=one_change(0, "dynamic")),
        ran(4, with_(micro=8), 1300.0, origin=one_change(2, "micro")),
    )
    assert proposed(speed_view(*trials)).params == with_(micro=4, dynamic=True)


def test_a_change_within_the_noise_moves_nothing():
    lucky = ran(2, with_(micro=4), 1035.0, origin=one_change(0, "micro"))
    assert incumbent(speed_view(*REPEATS, lucky), NOISE).number == 0
    assert proposed(speed_view(*REPEATS, lucky)).params == with_(micro=1)


@pytest.mark.parametrize(
    ("trials", "number"),
    [
        (REPEATS, 0),
        ((*REPEATS, ran(2, with_(micro=4), 1300.0)), 2),
        ((*REPEATS, ran(2, with_(micro=4), 1300.0, peak=0.9)), 0),
        ((*REPEATS, ran(2, with_(micro=4), 1300.0), ran(3, with_(micro=8), 1310.0)), 2),
        # Fast by chance, the survivor's repeat is still the survivor.
        ((*REPEATS, ran(2, SURVIVOR, 1300.0)), 1),
        # The first to complete need not be the survivor, nor fit.
        ((ran(0, with_(micro=4), 500.0), *[ran(n, SURVIVOR, 1000.0) for n in (1, 2)]), 1),
        ((ran(0, with_(micro=4), 3000.0, peak=0.95), ran(1, SURVIVOR, 1000.0)), 1),
    ],
)
def test_incumbent(trials, number):
    assert incumbent(speed_view(*trials), NOISE).number == number


def test_it_waits_for_a_step_in_the_air_when_no_other_is_left():
    trials = list(REPEATS)
    while isinstance(move := next_move(speed_view(*trials)), Propose):
        trials.append(trial(len(trials), move.candidate.params, origin=move.candidate.origin))
    assert move == Wait()
    assert len(trials) == len(REPEATS) + 5


def test_a_sampled_trial_in_the_air_holds_nothing_up():
    where_all_is_tried = [
        ran(2 + n, with_(**change), 900.0, origin=one_change(0, *change))
        for n, change in enumerate(
            ({"micro": 4}, {"micro": 1}, {"dynamic": True}, {"share": 0.6}, {"share": 0.4})
        )
    ]
    assert next_move(speed_view(*REPEATS, *where_all_is_tried, trial(9, with_(micro=16)))) == Sample()


def test_all_trials_used_ends_the_stage():
    assert next_move(speed_view(*REPEATS, trials=2)) == Finish("all 2 trials used")


def speed_of(params):
    """A landscape with one peak: micro 8, dynamic, share 0.7."""
    return (
        1000.0 - 100 * abs(params["micro"] - 8) + 500 * params["dynamic"] - 1000 * abs(params["share"] - 0.7)
    )


def test_single_changes_climb_to_the_top_and_come_to_an_end():
    trials = []
    while isinstance(move := next_move(speed_view(*trials, trials=100)), Propose):
        candidate = move.candidate
        trials.append(ran(len(trials), candidate.params, speed_of(candidate.params), origin=candidate.origin))
    assert move == Sample()
    assert incumbent(speed_view(*trials), NOISE).candidate.params == {
        "micro": 8,
        "dynamic": True,
        "share": 0.7,
    }
    assert len(trials) <= 10


def test_the_survivor_runs_again_between_the_others():
    repeats = [ran(0, SURVIVOR, 100.0), ran(1, SURVIVOR, 101.0)]
    others = [
        ran(2 + place, {"micro": 2, "dynamic": True, "share": 0.3 + 0.1 * place}, 90.0) for place in range(3)
    ]
    assert proposed(speed_view(*repeats, *others, baseline_every=3)).params == SURVIVOR
    for every in (4, None):
        assert proposed(speed_view(*repeats, *others, baseline_every=every)).params != SURVIVOR


def test_a_machine_that_drifts_is_told_with_the_gain():
    repeats = [ran(number, SURVIVOR, 100.0 * 0.97**number) for number in (0, 1, 6, 12)]
    view = speed_view(*repeats, ran(3, {"micro": 4, "dynamic": False, "share": 0.5}, 130.0))
    base = baseline(view)
    assert base.drift.total_frac == pytest.approx(0.97**12 - 1.0, abs=0.01)
    result = stage_result(
        view, base, carried={}, overrides_of={t.number: t.candidate.params for t in view.trials}
    )
    assert "the machine drifted by -30" in result.statement
