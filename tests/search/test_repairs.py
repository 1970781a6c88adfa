"""The levers: real keys only, inside the space, one at a time, twice as far the second time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.job.dead_keys import why_dead
from autotune.job.model import VerlSection
from autotune.judge.kinds import KINDS
from autotune.records import Candidate, FailureGroup
from autotune.search.moves import completed
from autotune.search.repairs import LEVERS, repairs, untried
from autotune.verl_config.compose import compose
from tests.search.builders import (
    ACTOR,
    BUDGET,
    DYNAMIC,
    ENGINE,
    MICRO,
    OFFLOAD,
    SEQUENCES,
    choice,
    failure,
    memory_space,
    real,
    space,
    whole,
)

LEVER_KEYS = sorted({lever.key for levers in LEVERS.values() for lever in levers})
WITHOUT_YAML = {"critic.ppo_infer_max_token_len_per_gpu"}
"""Live in verl's code though its YAML lacks them: searched with a leading `+`."""
USER = completed(memory_space(), {})


@pytest.mark.parametrize("kind", LEVERS)
def test_levers_are_for_kinds_that_are_the_candidates_fault(kind):
    assert KINDS[kind].group is FailureGroup.CANDIDATE


@pytest.mark.parametrize(
    "kind",
    [
        "oom_gpu_actor_update",
        "oom_gpu_log_prob",
        "oom_gpu_rollout_wakeup",
        "oom_gpu_rollout_runtime",
        "oom_gpu_rollout_init",
        "oom_host_ram",
        "oom_gpu_checkpoint",
    ],
)
def test_every_kind_with_levers_in_the_taxonomy_has_them_here(kind):
    assert LEVERS[kind]


def test_every_lever_is_a_key_of_the_installed_verl():
    verl = compose(VerlSection(overrides={}), {}).flat
    assert [key for key in LEVER_KEYS if key not in verl and key not in WITHOUT_YAML] == []


@pytest.mark.parametrize("key", LEVER_KEYS)
def test_no_lever_is_dead(key):
    assert why_dead(key) is None


def test_each_lever_moves_exactly_one_way():
    both = [
        lever
        for levers in LEVERS.values()
        for lever in levers
        if (lever.factor is None) == (lever.to is None)
    ]
    assert both == []


def changes(kind, params, where, times=1):
    """Per repair: the values that differ from `params`."""
    found = repairs(failure(kind), params, where, number=3, times_in_a_row=times)
    return [
        {key: value for key, value in candidate.params.items() if params.get(key) != value}
        for candidate in found
    ]


@pytest.mark.parametrize(
    ("kind", "times", "expected"),
    [
        ("oom_gpu_actor_update", 1, [{MICRO: 8}, {OFFLOAD: True}]),
        ("oom_gpu_actor_update", 2, [{MICRO: 4}, {OFFLOAD: True}]),
        ("oom_gpu_actor_update", 5, [{MICRO: 4}, {OFFLOAD: True}]),
        ("oom_gpu_log_prob", 1, [{MICRO: 8}]),
        ("oom_gpu_rollout_wakeup", 1, [{ENGINE: 0.45}, {OFFLOAD: True}]),
        ("oom_gpu_rollout_init", 1, [{ENGINE: 0.75}]),
        ("oom_unattributed", 1, [{MICRO: 8}, {ENGINE: 0.45}]),
        ("oom_host_ram", 1, []),
        ("oom_gpu_leak", 1, []),
        ("config_validation", 1, []),
        ("hang_update", 1, []),
        ("port_conflict", 1, []),
        ("no_such_kind", 1, []),
    ],
)
def test_repairs_of_the_users_configuration(kind, times, expected):
    assert changes(kind, USER, memory_space(), times) == expected


def test_a_budget_is_halved_where_batches_are_packed_by_tokens():
    params = {**USER, DYNAMIC: True, BUDGET: 8192}
    del params[MICRO]
    assert changes("oom_gpu_actor_update", params, memory_space())[0] == {BUDGET: 4096}


def test_a_kv_cache_that_is_too_small_grows_the_engines_share():
    at_top = {**USER, ENGINE: 0.9}
    where = space(*memory_space().parameters, whole(SEQUENCES, 16, 256, log=True, current=256))
    assert changes("oom_gpu_rollout_init", {**at_top, SEQUENCES: 256}, where) == [{SEQUENCES: 64}]


def test_a_key_that_verls_defaults_lack_is_found_under_its_plus():
    key = "+critic.ppo_infer_max_token_len_per_gpu"
    where = space(whole(key, 1024, 32768, log=True))
    assert changes("oom_gpu_critic", {key: 8192}, where) == [{key: 4096}]


def test_a_parameter_without_a_value_is_left_alone():
    assert (
        changes("oom_gpu_actor_update", {ENGINE: 0.6}, space(whole(MICRO, 1, 8), real(ENGINE, 0.1, 0.9)))
        == []
    )


def test_a_lever_that_is_already_pulled_is_skipped():
    assert changes("oom_gpu_actor_update", {**USER, MICRO: 1, OFFLOAD: True}, memory_space()) == []


def test_the_origin_tells_the_story():
    (first, *_) = repairs(failure("oom_gpu_actor_update"), USER, memory_space(), number=7)
    assert first.origin == (
        f"repair of #7 (oom_gpu_actor_update): {MICRO} 16 -> 8, fewer sequences in one backward pass"
    )


def test_untried_is_the_first_new_one():
    a, b = (Candidate(params={"x": x}, origin="") for x in (0.1 + 0.2, 0.5))
    assert untried([a, b], [{"x": 0.3}]) is b
    assert untried([a], [{"x": 0.3}]) is None


EVERY_LEVER = space(
    *memory_space().parameters,
    *(
        real(key, 0.0, 1.0)
        if key.endswith(("coef", "coeff", "high", "clip_grad", "lr"))
        else choice(key, False, True)
        for key in LEVER_KEYS
        if key.startswith(ACTOR) and key not in (MICRO, BUDGET, OFFLOAD)
    ),
    whole(SEQUENCES, 16, 256, step=16),
)


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 4), st.data())
def test_a_repair_never_leaves_the_space(kind, times, data):
    drawn = {
        parameter.key: data.draw(st.sampled_from(parameter.choices))
        if parameter.kind == "categorical"
        else parameter.clip(data.draw(st.floats(parameter.low, parameter.high)))
        for parameter in EVERY_LEVER.parameters
    }
    params = completed(EVERY_LEVER, drawn)
    assert EVERY_LEVER.contains(params)
    for candidate in repairs(failure(kind), params, EVERY_LEVER, number=0, times_in_a_row=times):
        assert EVERY_LEVER.contains(candidate.params)
        assert candidate.params != params
