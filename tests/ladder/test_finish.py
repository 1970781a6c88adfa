"""Which confirming run is next, and what the runs together say."""

import itertools
from dataclasses import replace

import pytest

from autotune.ladder import finish
from autotune.ladder.view import Finish, Propose, Wait
from autotune.records import Arm, FinishOutcome
from tests.ladder.finish_builders import WINNER, fell, flying, ran, ran_pairs, view_of

OWN, SURVIVOR = Arm.OWN, Arm.SURVIVOR


def order(**of_plan):
    """The runs that the finish asks for, each of them completing at once, as fast as chance will have it."""
    asked = []
    view = view_of(**of_plan)
    while isinstance(move := finish.next_move(view), Propose):
        candidate = move.candidate
        asked.append((Arm(candidate.origin), candidate.params["data.seed"]))
        view = view_of(*view.trials, ran(*asked[-1], speed=1000.0 + 40.0 * (len(asked) % 3)), **of_plan)
    assert isinstance(move, Finish)
    return asked


# The plan


@pytest.mark.parametrize(
    ("pairs", "looks"), [(2, (2,)), (3, (3,)), (4, (3, 4)), (6, (3, 6)), (7, (4, 7)), (20, (10, 20))]
)
def test_looks_are_few_and_settled_beforehand(pairs, looks):
    assert finish.looks_of(pairs) == looks


@pytest.mark.parametrize("pairs", [2, 3, 6, 20])
def test_all_looks_together_spend_what_is_allowed(pairs):
    alphas = finish.alphas_of(finish.looks_of(pairs), 0.05)
    assert sum(alphas) == pytest.approx(0.05)
    assert all(alpha > 0.0 for alpha in alphas)


def test_an_early_look_spends_little():
    assert finish.alphas_of((3, 6), 0.05) == pytest.approx((0.0125, 0.0375))


@pytest.mark.parametrize(
    ("wanted", "left_runs", "pairs"),
    [
        (6, 1000.0, 6),
        (6, 13.0, 6),
        (6, 12.9, 5),
        (6, 7.2, 3),
        (6, 0.0, 2),
        (6, -3.0, 2),
        (6, float("inf"), 6),
    ],
)
def test_pairs_fit_the_budget(wanted, left_runs, pairs):
    assert finish.affordable_pairs(wanted, left_runs) == pairs


@pytest.mark.parametrize(
    ("left_runs", "after"), [(float("inf"), (3, 3)), (17.0, (3, 2)), (13.0, (3, 0)), (9.0, (1, 0))]
)
def test_a_gain_is_measured_by_as_many_more_as_the_budget_has_room_for(left_runs, after):
    assert finish.after_of((3, 6), 3, left_runs) == after


def test_the_most_that_it_can_come_to():
    assert finish.most_pairs((3, 6), (3, 0)) == 6
    assert finish.most_pairs((3, 6), (3, 2)) == 8


def test_seeds_are_fresh():
    assert finish.fresh_seeds([1, 42, 7], 3) == (43, 44, 45)
    assert finish.fresh_seeds([], 2) == (1, 2)


# Which run is next


def test_pairs_alternate_and_share_a_seed():
    asked = order(pairs=4)
    assert [arm for arm, _ in asked] == [OWN, Arm.WINNER, Arm.WINNER, OWN] * 2
    assert [seed for _, seed in asked] == [101, 101, 102, 102, 103, 103, 104, 104]


def test_a_clear_gain_ends_it_at_the_first_look():
    view = view_of(*ran_pairs(3, gain=0.3))
    assert isinstance(finish.next_move(view), Finish)
    assert finish.verdict(view).outcome is FinishOutcome.BETTER
    assert finish.verdict(view).pairs == 3


def test_a_gain_is_measured_by_pairs_after_the_decision():
    plan = {"after": (2, 2)}
    assert len(order(**plan)) == 12
    decided = view_of(*ran_pairs(3, gain=0.3), **plan)
    assert finish.verdict(decided) is None
    assert finish.next_move(decided).candidate == finish.candidate(Arm.WINNER, 104)
    measured = view_of(*ran_pairs(5, gain=0.3), **plan)
    assert isinstance(finish.next_move(measured), Finish)
    verdict = finish.verdict(measured)
    assert (verdict.outcome, verdict.pairs, verdict.pairs_after) == (FinishOutcome.BETTER, 3, 2)
    assert verdict.seeds == (101, 102, 103, 104, 105)
    assert "over 3 pairs of cold runs, its gain measured by 2 more" in verdict.statement


def test_what_the_later_pairs_do_not_show_is_not_claimed():
    slower = [
        replace(trial, run=replace(trial.run, tokens_per_s_per_gpu=speed))
        for trial in ran_pairs(5)[6:]
        for speed in [700.0 if trial.candidate.origin == Arm.WINNER.value else 1000.0]
    ]
    verdict = finish.verdict(view_of(*ran_pairs(3, gain=0.06), *slower, after=(2, 2)))
    speed = verdict.comparisons[0]
    assert verdict.outcome is FinishOutcome.BETTER
    assert (speed.claimed, speed.low) == (0.0, 0.0)
    assert any("stays open" in note for note in verdict.notes)


def test_a_winner_that_fails_while_its_gain_is_measured_is_not_better():
    view = view_of(*ran_pairs(3, gain=0.3), fell(Arm.WINNER, 104), after=(2, 2))
    assert finish.verdict(view).outcome is FinishOutcome.NOT_BETTER


def test_a_machine_that_loses_the_later_runs_leaves_the_decision():
    lost = [fell(Arm.WINNER, 104, "port_conflict")] * 28
    view = view_of(*ran_pairs(3, gain=0.3), *lost, after=(2, 2))
    assert isinstance(finish.next_move(view), Finish)
    verdict = finish.final_verdict(view)
    assert (verdict.outcome, verdict.pairs, verdict.pairs_after) == (FinishOutcome.BETTER, 3, 0)


def test_a_plan_of_before_has_no_later_pairs():
    assert finish.verdict(view_of(*ran_pairs(3, gain=0.3), after=())).pairs_after == 0


@pytest.mark.parametrize("count", [1, 2])
def test_no_verdict_is_given_between_looks(count):
    view = view_of(*ran_pairs(count, gain=0.3))
    assert finish.verdict(view) is None
    assert isinstance(finish.next_move(view), Propose)


def test_a_run_in_the_air_is_not_started_twice():
    first = ran_pairs(2)
    view = view_of(*first, flying(OWN, 103))
    assert finish.next_move(view).candidate == finish.candidate(Arm.WINNER, 103)
    assert isinstance(finish.next_move(view_of(*first, flying(OWN, 103), flying(Arm.WINNER, 103))), Wait)


def test_a_run_lost_to_the_machine_is_made_again():
    view = view_of(fell(OWN, 101, "port_conflict"))
    assert finish.next_move(view).candidate == finish.candidate(OWN, 101)


def test_a_machine_that_loses_every_run_gets_no_verdict_out_of_it():
    view = view_of(*[fell(OWN, 101, "port_conflict")] * 10, pairs=2)
    assert isinstance(finish.next_move(view), Finish)
    verdict = finish.final_verdict(view)
    assert verdict.outcome is FinishOutcome.INCONCLUSIVE
    assert "lost to the machine" in verdict.notes[0]


# The verdict


@pytest.mark.parametrize(
    ("gain", "outcome"), [(0.30, "better"), (0.05, "better"), (-0.1, "not better"), (0.0, "not better")]
)
def test_the_verdict_follows_the_interval(gain, outcome):
    verdict = finish.verdict(view_of(*ran_pairs(6, gain=gain)))
    assert verdict.outcome is FinishOutcome(outcome)
    assert verdict.statement.startswith(outcome)
    assert verdict.reference is OWN
    assert verdict.winner == WINNER
    speed = verdict.comparisons[0]
    assert speed.low <= gain + 0.01
    assert speed.high >= gain - 0.01


def test_noise_is_inconclusive():
    speeds = itertools.cycle([1100.0, 950.0, 1000.0])
    trials = [ran(arm, seed, next(speeds)) for seed in range(101, 107) for arm in (OWN, Arm.WINNER)]
    verdict = finish.verdict(view_of(*trials))
    assert verdict.outcome is FinishOutcome.INCONCLUSIVE
    assert verdict.seeds == (101, 102, 103, 104, 105, 106)


def test_faster_but_learning_worse_is_not_better():
    worse = {"validation_reward": 0.4}
    verdict = finish.verdict(view_of(*ran_pairs(6, gain=0.3, winner=worse)))
    assert verdict.outcome is FinishOutcome.NOT_BETTER
    assert "validation reward -0.100" in verdict.statement


def test_a_reward_gain_is_confirmed_on_validation_data_where_there_is_some():
    goals = ("reward",)
    trained = ran_pairs(6, winner={"reward": 0.9})
    assert finish.verdict(view_of(*trained, goals=goals)).outcome is FinishOutcome.NOT_BETTER
    both = {"reward": 0.9, "validation_reward": 0.9}
    assert finish.verdict(view_of(*ran_pairs(6, winner=both), goals=goals)).outcome is FinishOutcome.BETTER
    without = {"validation_reward": None}
    trials = ran_pairs(6, winner={"reward": 0.9, **without}, reference=without)
    verdict = finish.verdict(view_of(*trials, goals=goals))
    assert verdict.outcome is FinishOutcome.BETTER
    assert "training rewards" in verdict.notes[0]


def test_a_winner_that_fails_once_is_not_better():
    verdict = finish.verdict(view_of(ran(OWN, 101), fell(Arm.WINNER, 101)))
    assert verdict.outcome is FinishOutcome.NOT_BETTER
    assert "oom_gpu_actor_update" in verdict.statement


def test_the_users_own_configuration_is_not_run_against_itself():
    view = view_of(is_own=True)
    assert isinstance(finish.next_move(view), Finish)
    assert finish.verdict(view).outcome is FinishOutcome.NOT_BETTER
    assert "the user's own" in finish.verdict(view).statement


# The user's own configuration fails


def test_the_survivor_stands_in_for_a_configuration_that_fails():
    move = finish.next_move(view_of(fell(OWN, 101)))
    assert move.candidate == finish.candidate(SURVIVOR, 101)
    verdict = finish.verdict(view_of(fell(OWN, 101), *ran_pairs(3, gain=0.3, against=SURVIVOR)))
    assert verdict.outcome is FinishOutcome.BETTER
    assert verdict.reference is SURVIVOR
    assert verdict.own_failure == "oom_gpu_actor_update in update_actor"
    assert "user's own configuration fails" in verdict.statement
    assert "compared with the survivor" in verdict.statement


def test_a_later_failure_of_the_users_own_starts_the_comparison_anew():
    trials = [ran(OWN, 101), ran(Arm.WINNER, 101), ran(Arm.WINNER, 102), fell(OWN, 102)]
    assert finish.next_move(view_of(*trials)).candidate == finish.candidate(SURVIVOR, 101)


def test_a_winner_that_is_the_survivor_claims_no_gain():
    trials = [fell(OWN, 101), ran(Arm.WINNER, 101)]
    view = view_of(*trials, survivor=None)
    assert finish.next_move(view).candidate == finish.candidate(Arm.WINNER, 102)
    verdict = finish.verdict(view_of(*trials, ran(Arm.WINNER, 102), survivor=None))
    assert verdict.outcome is FinishOutcome.BETTER
    assert verdict.reference is None
    assert "ran 2 of 2 times; no gain" in verdict.statement


def test_drift_of_the_machine_is_told():
    trials = ran_pairs(6, gain=0.3)
    drifting = [
        ran(
            trial.candidate.origin,
            trial.candidate.params["data.seed"],
            trial.run.tokens_per_s_per_gpu * 0.97**place,
        )
        for place, trial in enumerate(trials)
    ]
    verdict = finish.verdict(view_of(*drifting, looks=(6,), alphas=(0.05,)))
    assert verdict.outcome is FinishOutcome.BETTER
    assert any("the machine drifted by -2" in note for note in verdict.notes)


def test_goals_share_the_error():
    one = finish.verdict(view_of(*ran_pairs(6, gain=0.3), looks=(6,), alphas=(0.05,)))
    two = finish.verdict(
        view_of(*ran_pairs(6, gain=0.3), looks=(6,), alphas=(0.05,), goals=("tokens_per_s_per_gpu", "reward"))
    )
    assert two.comparisons[0].low < one.comparisons[0].low
