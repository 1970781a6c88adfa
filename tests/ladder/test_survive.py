"""Stage survive as stories: what is proposed after what happened."""

import pytest

from autotune.ladder.survive import next_move
from autotune.ladder.view import Finish, Propose, Sample, Wait
from autotune.search.moves import completed as full_point
from autotune.search.moves import safest_point
from tests.ladder.builders import completed, failed, survive_view, trial
from tests.search.builders import DYNAMIC, ENGINE, MICRO, OFFLOAD, choice, memory_space, space, whole

USER = full_point(memory_space(), {})
SAFEST = safest_point(memory_space())
SAFEST_CHANGES = {MICRO: 1, ENGINE: 0.3, OFFLOAD: True}
UPDATE_OOM = failed("oom_gpu_actor_update")
REPAIR_0 = "repair of #0 (oom_gpu_actor_update): ..."


def repaired(**changes):
    return {**USER, **changes}


def proposal(view):
    move = next_move(view)
    assert isinstance(move, Propose), move
    return move.candidate


def test_the_users_own_configuration_comes_first():
    assert proposal(survive_view()).params == USER
    assert proposal(survive_view()).origin == "user configuration"


def test_a_user_who_sets_nothing_of_the_space_comes_first_too():
    assert proposal(survive_view(where=space(whole(MICRO, 1, 8)))).params == {}


def test_accepted_at_once_ends_the_stage():
    view = survive_view(trial(0, USER, completed(), accepted=True))
    assert next_move(view) == Finish("1 accepted, 1 wanted")


def test_more_survivors_may_be_wanted():
    view = survive_view(trial(0, USER, completed(), accepted=True), accepted_wanted=2)
    assert proposal(view).params == SAFEST


def test_oom_repair_accepted_finish():
    first = trial(0, USER, UPDATE_OOM, origin="user configuration")
    repair = proposal(survive_view(first))
    assert repair.params == repaired(**{MICRO: 8})
    assert repair.origin.startswith("repair of #0 (oom_gpu_actor_update)")
    second = trial(1, repair.params, completed(), origin=repair.origin, accepted=True)
    assert isinstance(next_move(survive_view(first, second)), Finish)


def story(*kinds):
    """The values that each repair in the chain changed, told by the failure that called for it."""
    trials, changes, params, origin = [], [], USER, "user configuration"
    for number, kind in enumerate(kinds):
        trials.append(trial(number, params, failed(kind), origin=origin))
        repair = proposal(survive_view(*trials))
        changes.append({k: v for k, v in repair.params.items() if params.get(k) != v})
        params, origin = repair.params, repair.origin
    return changes


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        # The second time in a row a number moves twice as far; at its end the next lever has its turn.
        (["oom_gpu_actor_update"] * 4, [{MICRO: 8}, {MICRO: 2}, {MICRO: 1}, {OFFLOAD: True}]),
        # Another kind starts over with its own first lever.
        (["oom_gpu_actor_update", "oom_gpu_rollout_wakeup"], [{MICRO: 8}, {ENGINE: 0.45}]),
        (["oom_gpu_actor_update", "nan_inf"], [{MICRO: 8}, SAFEST_CHANGES]),
    ],
)
def test_repair_chains(kinds, expected):
    assert story(*kinds) == expected


def test_a_repair_that_leads_back_is_not_taken():
    wakeup = trial(0, USER, failed("oom_gpu_rollout_wakeup"), origin="user configuration")
    too_small = trial(
        1,
        repaired(**{ENGINE: 0.45}),
        failed("oom_gpu_rollout_init"),
        origin="repair of #0 (oom_gpu_rollout_wakeup): ...",
    )
    assert proposal(survive_view(wakeup, too_small)).params == SAFEST


def test_a_survivor_over_the_memory_limit_is_repaired_like_an_oom():
    over = trial(0, USER, completed(peak=0.93), origin="user configuration")
    assert proposal(survive_view(over)).params == repaired(**{MICRO: 8})


def test_an_engine_that_takes_too_much_gives_up_some_of_its_share():
    over = trial(0, USER, completed(peak=0.93, phase="rollout"), origin="user configuration")
    assert proposal(survive_view(over)).params == repaired(**{ENGINE: 0.45})


@pytest.mark.parametrize("verdict", [completed(peak=None), completed(peak=0.5), failed("hang_update")])
def test_without_a_lever_the_safest_point_comes_next(verdict):
    move = proposal(survive_view(trial(0, USER, verdict)))
    assert (move.params, move.origin) == (SAFEST, "checklist: every memory knob at its safest")


def test_after_the_safest_point_the_sampler():
    view = survive_view(trial(0, USER, failed("hang_update")), trial(1, SAFEST, failed("hang_update")))
    assert next_move(view) == Sample()


def test_levers_used_up_lead_to_the_safest_point_then_to_the_sampler():
    where = space(whole(MICRO, 1, 2, log=True, current=2), choice(DYNAMIC, True, False, current=False))
    user, repair = {MICRO: 2, DYNAMIC: False}, {MICRO: 1, DYNAMIC: False}
    trials = [trial(0, user, UPDATE_OOM), trial(1, repair, UPDATE_OOM, origin=REPAIR_0)]
    assert proposal(survive_view(*trials, where=where)).params == {MICRO: 1, DYNAMIC: True}
    trials.append(trial(2, {MICRO: 1, DYNAMIC: True}, UPDATE_OOM))
    assert next_move(survive_view(*trials, where=where)) == Sample()


@pytest.mark.parametrize("kind", ["input_missing", "port_conflict"])
def test_a_void_trial_is_tried_again(kind):
    view = survive_view(trial(0, USER, failed(kind), origin="user configuration"))
    assert proposal(view).params == USER


def test_a_void_repair_is_tried_again():
    view = survive_view(
        trial(0, USER, UPDATE_OOM), trial(1, repaired(**{MICRO: 8}), failed("cuda_fault"), origin=REPAIR_0)
    )
    assert proposal(view).params == repaired(**{MICRO: 8})


def test_two_slots_the_repair_under_way_is_not_started_twice():
    own = trial(0, USER, UPDATE_OOM, origin="user configuration")
    repair = trial(1, repaired(**{MICRO: 8}), origin=REPAIR_0)
    # One is wanted and one is in the air: a safest point beside it would win by its head-room alone.
    assert next_move(survive_view(own, repair)) == Wait()
    assert proposal(survive_view(own, repair, accepted_wanted=2)).params == SAFEST
    safest = trial(2, SAFEST, origin="checklist")
    assert next_move(survive_view(own, repair, safest, accepted_wanted=2)) == Wait()


def test_two_slots_from_the_start():
    own = trial(0, USER, origin="user configuration")
    assert next_move(survive_view(own)) == Wait()
    assert proposal(survive_view(own, accepted_wanted=3)).params == SAFEST
    assert next_move(survive_view(own, trial(1, SAFEST), accepted_wanted=3)) == Sample()


def test_all_trials_used_ends_the_stage():
    view = survive_view(trial(0, USER, UPDATE_OOM), trial(1, SAFEST), trials=2)
    assert next_move(view) == Finish("all 2 trials used")
