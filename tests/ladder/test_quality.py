"""Stage quality: the baseline, then moves read from curves, next to the sampler."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.ladder.quality import baseline, next_move
from autotune.ladder.view import Finish, Propose, Sample, Wait
from autotune.records import StageName
from tests.ladder.builders import (
    CLIP,
    ENTROPY,
    FASTEST,
    KL,
    LR,
    completed,
    failed,
    learned,
    quality_space,
    quality_view,
    trial,
)
from tests.ladder.test_diagnosis import EARLY_PEAK, FLAT, MIDDLE, SLOW_RISE, SWINGING
from tests.search.builders import choice, real, space

ROOM = math.sqrt(0.9 * 0.12 / 0.08)
"""How much larger the steps may be after a KL of 0.08, as `learned` has it."""


def with_(**changes):
    names = {"lr": LR, "kl": KL, "clip": CLIP, "entropy": ENTROPY}
    return {**FASTEST, **{names[name]: value for name, value in changes.items()}}


def proposed(view):
    move = next_move(view)
    assert isinstance(move, Propose), move
    return move.candidate


@pytest.mark.parametrize("first", [(FASTEST,), ()])
def test_the_baseline_comes_first(first):
    assert proposed(quality_view(first=first)).params == FASTEST
    assert next_move(quality_view(trial(0, FASTEST), first=first)) == Wait()
    assert baseline(quality_view(trial(0, FASTEST), first=first)) is None
    done = learned(0, FASTEST, FLAT)
    assert baseline(quality_view(done, first=first)).figures == done.verdict.figures


def test_a_void_baseline_runs_again_and_counts_then():
    void = trial(0, FASTEST, failed("port_conflict"))
    assert proposed(quality_view(void)).params == FASTEST
    again = learned(1, FASTEST, FLAT)
    assert baseline(quality_view(void, again)).figures == again.verdict.figures


RISING = (0.40, 0.42, 0.44, 0.46, 0.50, 0.60, 0.70, 0.80)


@pytest.mark.parametrize(
    ("kls", "reward", "step"),
    [
        # Four steps inside, of which the last three count as for every curve.
        ((0.0, 0.03, 0.06, 0.11, 0.2, 0.4, 0.6, 0.9), 0.44, 5),
        # Left at once: what the policy earned before it was changed.
        ((0.3,) * 8, 0.40, 1),
        ((0.0, 0.03, 0.06, 0.08, 0.09, 0.10, 0.11, 0.12), 0.80, None),
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_a_start_that_left_the_band_is_worth_what_it_reached_inside(kls, reward, step, stopped):
    start = learned(0, FASTEST, RISING, kls)
    if stopped:
        start = replace(start, verdict=failed("kl_drift"))
    found = baseline(quality_view(start))
    if stopped and step is None:
        assert found is None  # stopped for something else, and nothing says what it would have reached
    else:
        assert (found.figures.reward, found.left_band_at_step) == (pytest.approx(reward), step)


@pytest.mark.parametrize(
    ("rewards", "kls", "changes"),
    [
        (EARLY_PEAK, [0.08], [{CLIP: 0.1}, {LR: 5e-7}]),
        # Entropy 0 has no multiple; the move takes it to its next value.
        (SWINGING, [0.08], [{LR: 5e-7}, {ENTROPY: 0.002}]),
        (SLOW_RISE, [0.08], [{LR: 1e-6 * ROOM}, {KL: 2e-3}]),
        (FLAT, [0.24], [{LR: 1e-6 * math.sqrt(MIDDLE / 0.24)}, {KL: 2e-3}]),
        (FLAT, [0.01], [{LR: 1e-6 * math.sqrt(MIDDLE / 0.01)}, {KL: 3e-4}]),
        (FLAT, [0.08], []),
    ],
)
def test_moves_from_the_baselines_curves_then_the_sampler(rewards, kls, changes):
    trials = [learned(0, FASTEST, rewards, kls)]
    for expected in changes:
        candidate = proposed(quality_view(*trials))
        assert candidate.params == pytest.approx({**FASTEST, **expected})
        assert candidate.origin.startswith("curve of #0 (")
        trials.append(trial(len(trials), candidate.params))
    assert next_move(quality_view(*trials)) == Sample()


def test_moves_start_from_the_best_trial_then_the_second():
    trials = (
        learned(0, FASTEST, SLOW_RISE),
        learned(1, with_(lr=2e-6), [r + 0.5 for r in SLOW_RISE]),
        learned(2, with_(lr=5e-7), [r - 0.5 for r in SLOW_RISE]),
    )
    assert proposed(quality_view(*trials)).params == pytest.approx(with_(lr=2e-6 * ROOM))
    taken = [trial(3, with_(lr=2e-6 * ROOM)), trial(4, with_(lr=2e-6, kl=2e-3))]
    assert proposed(quality_view(*trials, *taken)).params == pytest.approx(with_(lr=1e-6 * ROOM))


def test_negative_rewards_are_ranked_like_others():
    worse = learned(0, FASTEST, [r - 9.0 for r in SLOW_RISE])
    better = learned(1, with_(lr=2e-6), [r - 5.0 for r in SLOW_RISE])
    unmeasured = trial(2, with_(lr=9e-6), completed(), stage=StageName.QUALITY)
    view = quality_view(worse, better, unmeasured)
    assert proposed(view).params == pytest.approx(with_(lr=2e-6 * ROOM))


def test_a_baseline_that_failed_is_repaired():
    drifted = trial(0, FASTEST, failed("kl_drift"), stage=StageName.QUALITY)
    repair = proposed(quality_view(drifted))
    assert repair.params == pytest.approx(with_(lr=3e-7))
    assert repair.origin.startswith("repair of #0 (kl_drift)")


def test_a_move_that_failed_is_not_taken_back():
    trials = (
        learned(0, FASTEST, SLOW_RISE),
        trial(1, with_(lr=1e-6 * ROOM), failed("kl_drift"), stage=StageName.QUALITY),
        trial(2, with_(kl=2e-3), failed("nan_inf"), stage=StageName.QUALITY),
    )
    assert next_move(quality_view(*trials)) == Sample()


def test_all_trials_used_ends_the_stage():
    assert next_move(quality_view(learned(0, FASTEST, FLAT), trials=1)) == Finish("all 1 trials used")


@given(
    st.lists(st.floats(-2, 2), max_size=30),
    st.lists(st.floats(0, 5), max_size=30),
    st.floats(1e-7, 1e-5),
    st.floats(1e-4, 1e-1),
    st.floats(0.1, 0.3),
    st.floats(0.0, 0.02),
)
def test_a_move_never_leaves_the_space(rewards, kls, lr, kl, clip, entropy):
    params = {LR: lr, KL: kl, CLIP: clip, ENTROPY: entropy}
    view = quality_view(
        trial(
            0, params, completed(reward=0.5), stage=StageName.QUALITY, rewards=tuple(rewards), kls=tuple(kls)
        ),
        first=(params,),
    )
    move = next_move(view)
    if isinstance(move, Propose):
        assert quality_space().contains(move.candidate.params)
        assert move.candidate.params != params


def test_a_move_says_what_was_seen_and_why_it_should_help():
    candidate = proposed(quality_view(learned(0, FASTEST, EARLY_PEAK)))
    assert candidate.diagnosis == "#0: early peak, then fall"
    assert candidate.reason == "a tighter clip keeps one batch from undoing what was learned"


def test_a_kl_over_its_band_makes_the_penalty_adaptive_where_the_job_has_one():
    control, penalty = "algorithm.kl_ctrl.type", "algorithm.kl_ctrl.kl_coef"
    where = space(
        real(penalty, 1e-4, 2e-2, log=True, current=1e-2),
        choice(control, "fixed", "adaptive", current="fixed"),
    )
    own = {penalty: 1e-2, control: "fixed"}
    trials = [learned(0, own, FLAT, [0.24])]
    trials.append(trial(1, proposed(quality_view(*trials, where=where, first=(own,))).params))
    assert trials[1].candidate.params == {penalty: 2e-2, control: "fixed"}
    second = proposed(quality_view(*trials, where=where, first=(own,)))
    assert second.params == {penalty: 1e-2, control: "adaptive"}
    adapted = learned(0, {**own, control: "adaptive"}, FLAT, [0.24])
    taken = trial(1, {penalty: 2e-2, control: "adaptive"})
    view = quality_view(adapted, taken, where=where, first=(adapted.candidate.params,))
    assert next_move(view) == Sample()


def test_the_verdicts_signs_are_answered():
    rising = learned(0, FASTEST, SLOW_RISE)
    verdict = replace(rising.verdict, signs=("entropy_fell",))
    candidate = proposed(quality_view(replace(rising, verdict=verdict)))
    assert candidate.params == pytest.approx(with_(entropy=0.002))
    assert candidate.diagnosis == "#0: entropy collapsed"
