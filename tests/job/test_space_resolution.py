from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import JobFileError
from autotune.job.loading import load_space
from autotune.job.shipped import shipped
from autotune.job.space import SearchSpace
from autotune.job.space_resolution import resolve_space

FACTS = {"sequence_tokens": 80, "mini_samples_per_gpu": 24, "use_dynamic_bsz": False, "uses_critic": False}


def resolved(parameters, current=None, facts=FACTS):
    space = SearchSpace.model_validate({"name": "s", "parameters": parameters})
    return resolve_space(space, facts, current or {})


def one(parameter, current=None):
    """The parameter `p.x` alone, resolved, with the user's own value."""
    return resolved({"p.x": parameter}, {} if current is None else {"p.x": current}).parameters[0]


def test_expressions_become_numbers():
    parameter = one(
        {"kind": "int", "low": "sequence_tokens * 2", "high": "ceil(sequence_tokens * 4.5)", "step": 80}
    )
    assert (parameter.low, parameter.high, parameter.step) == (160, 320, 80)
    assert isinstance(parameter.low, int)


def test_choices_are_evaluated_filtered_and_kept_once():
    parameter = one(
        {
            "kind": "categorical",
            "choices": [1, 2, 16, "=8", 8, "=mini_samples_per_gpu", 48],
            "keep": "mini_samples_per_gpu % value == 0",
        }
    )
    assert parameter.choices == (1, 2, 8, 24)


@pytest.mark.parametrize(
    ("choices", "own", "expected"),
    [
        ([1, 2, 4], 3, (1, 2, 3, 4)),
        ([4, 2, 1], 8, (8, 4, 2, 1)),
        ([4, 2, 1], 3, (4, 3, 2, 1)),
        ([1, 2], 2, (1, 2)),
        ([1, 2], 2.0, (1, 2)),
        ([0, 1], True, (True, 0, 1)),
        (["a", "b"], "c", ("c", "a", "b")),
        ([True], False, (False, True)),
        ([None, 5], 7, (7, None, 5)),
        ([[1], [2]], [3], ([3], [1], [2])),
    ],
)
def test_the_users_choice_is_always_among_them(choices, own, expected):
    parameter = one({"kind": "categorical", "choices": choices}, own)
    assert parameter.choices == expected
    assert list(map(type, parameter.choices)) == list(map(type, expected))
    assert parameter.current == own
    assert parameter.contains(own)


@pytest.mark.parametrize(
    ("parameter", "own", "expected"),
    [
        ({"kind": "float", "low": 0.3, "high": 0.8, "step": 0.05}, 0.6, (0.3, 0.8, 0.05, False)),
        ({"kind": "float", "low": 0.3, "high": 0.8, "step": 0.05}, 0.85, (0.3, 0.85, 0.05, False)),
        ({"kind": "float", "low": 0.3, "high": 0.8, "step": 0.05}, 0.1, (0.1, 0.8, 0.05, False)),
        ({"kind": "float", "low": 0.3, "high": 0.8, "step": 0.05}, 0.62, (0.3, 0.8, None, False)),
        ({"kind": "float", "low": 1e-6, "high": 1e-4, "log": True}, 1e-3, (1e-6, 1e-3, None, True)),
        ({"kind": "float", "low": 1e-6, "high": 1e-4, "log": True}, 0, (0, 1e-4, None, False)),
        ({"kind": "int", "low": 2, "high": 10, "step": 4}, 6, (2, 10, 4, False)),
        ({"kind": "int", "low": 2, "high": 10, "step": 4}, 3, (2, 10, 1, False)),
        ({"kind": "int", "low": 2, "high": 11, "step": 4}, None, (2, 10, 4, False)),
        ({"kind": "int", "low": 2, "high": 10}, 12.0, (2, 12, 1, False)),
    ],
)
def test_ranges_widen_to_the_users_value(parameter, own, expected):
    result = one(parameter, own)
    assert (result.low, result.step, result.log) == (expected[0], expected[2], expected[3])
    assert result.high == pytest.approx(expected[1])
    assert own is None or result.contains(own)
    assert result.current == own


@pytest.mark.parametrize("own", ["???", None, "text", [1]])
def test_a_value_that_cannot_be_in_a_range_is_no_current_value(own):
    assert one({"kind": "int", "low": 1, "high": 3}, own).current is None


DYNAMIC = {
    "actor.use_dynamic_bsz": {"kind": "categorical", "choices": [False, True], "also": ["rollout.dynamic"]},
    "actor.micro": {
        "kind": "categorical",
        "choices": [1, 2, 4],
        "when": "not use_dynamic_bsz",
        "also": ["ref.micro"],
    },
    "actor.tokens": {"kind": "categorical", "choices": [80, 160], "when": "use_dynamic_bsz"},
    "critic.tokens": {"kind": "categorical", "choices": [80], "when": "uses_critic"},
}
USER = {"actor.use_dynamic_bsz": False, "actor.micro": 3, "actor.tokens": 16384, "ref.micro": 5}


def test_conditions_follow_the_chosen_values():
    space = resolved(DYNAMIC, USER)
    assert [p.key for p in space.active({})] == ["actor.use_dynamic_bsz", "actor.micro"]
    assert [p.key for p in space.active({"actor.use_dynamic_bsz": True})] == [
        "actor.use_dynamic_bsz",
        "actor.tokens",
    ]


def test_only_parameters_in_use_are_widened():
    micro, tokens = resolved(DYNAMIC, USER).parameters[1:3]
    assert (micro.choices, micro.current) == ((1, 2, 3, 4), 3)
    assert (tokens.choices, tokens.current) == ((80, 160), None)


def test_the_users_configuration_is_a_point_and_runs_as_it_is():
    space = resolved(DYNAMIC, USER)
    params = space.user_params()
    assert params == {"actor.use_dynamic_bsz": False, "actor.micro": 3}
    assert space.contains(params)
    assert space.overrides(params) == params  # ref.micro stays the user's own 5


def test_overrides_carry_the_linked_keys_and_leave_out_what_is_not_in_use():
    space = resolved(DYNAMIC, USER)
    assert space.overrides({"actor.use_dynamic_bsz": True, "actor.micro": 2, "actor.tokens": 160}) == {
        "actor.use_dynamic_bsz": True,
        "rollout.dynamic": True,
        "actor.tokens": 160,
    }
    assert space.overrides({"actor.micro": 2}) == {"actor.micro": 2, "ref.micro": 2}


@pytest.mark.parametrize(
    ("params", "contained"),
    [
        ({"actor.use_dynamic_bsz": False, "actor.micro": 4}, True),
        ({"actor.use_dynamic_bsz": False}, False),
        ({"actor.use_dynamic_bsz": True, "actor.tokens": 80, "actor.micro": 99}, True),
        ({"actor.use_dynamic_bsz": True, "actor.tokens": 81}, False),
        ({"actor.use_dynamic_bsz": 0, "actor.micro": 4}, False),
        ({"actor.use_dynamic_bsz": False, "actor.micro": 4, "other.key": 1}, False),
    ],
)
def test_contains(params, contained):
    assert resolved(DYNAMIC, USER).contains(params) is contained


def test_clip_moves_to_the_nearest_value():
    space = resolved({**DYNAMIC, "p.share": {"kind": "float", "low": 0.3, "high": 0.8, "step": 0.1}}, USER)
    clipped = space.clip({"actor.micro": 1000, "actor.tokens": 5, "p.share": 0.44, "other": 1})
    assert clipped == {"actor.micro": 4, "p.share": pytest.approx(0.4)}
    assert space.clip({"actor.micro": "many"}) == {"actor.micro": 1}


def test_a_plus_key_reads_the_value_without_the_plus_and_verls_own_default():
    parameter = {"+p.x": {"kind": "categorical", "choices": [1, 2], "default": 8}}
    assert resolved(parameter, {"p.x": 4}).parameters[0].choices == (1, 2, 4)
    assert resolved(parameter).user_params() == {"+p.x": 8}


def test_all_ranges_without_sense_are_told_at_once():
    with pytest.raises(JobFileError) as caught:
        resolved(
            {
                "a.reversed": {"kind": "int", "low": "sequence_tokens", "high": 8},
                "a.fraction": {"kind": "int", "low": 1, "high": "sequence_tokens / 3"},
                "a.zero": {"kind": "float", "low": "sequence_tokens - 80", "high": 1, "log": True},
                "a.division": {"kind": "int", "low": 1, "high": "1 // (sequence_tokens - 80)"},
                "a.text": {"kind": "int", "low": 1, "high": "'x'"},
            }
        )
    faults = {fault.key: fault for fault in caught.value.faults}
    assert list(faults) == ["a.reversed", "a.fraction", "a.zero", "a.division", "a.text"]
    assert "low is 80 and high is 8" in faults["a.reversed"].found
    assert "search space s" in faults["a.zero"].where


def test_no_choice_left_is_a_fault_unless_the_user_has_one():
    parameter = {"kind": "categorical", "choices": [7], "keep": "mini_samples_per_gpu % value == 0"}
    assert one(parameter, 3).choices == (3,)
    with pytest.raises(JobFileError, match="no choice left"):
        one(parameter)


@given(st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_clip_always_gives_a_contained_value(own, wanted):
    parameter = one({"kind": "float", "low": 0.3, "high": 0.8, "step": 0.05}, own)
    assert parameter.contains(own)
    assert parameter.contains(parameter.clip(wanted))
    assert parameter.clip(own) == own


TINY = load_space(shipped("search_spaces", "survive_tiny_cpu"))


@given(st.integers(1, 64), st.integers(1, 150).map(lambda half: 2 * half), st.booleans())
def test_the_survive_space_holds_every_users_micro_batch(micro, samples, dynamic):
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    facts = {
        "sequence_tokens": 80, "mini_samples_per_gpu": samples, "samples_per_gpu": samples * 4,
        "use_dynamic_bsz": dynamic, "uses_critic": False,
    }  # fmt: skip
    user = {
        f"{actor}.use_dynamic_bsz": dynamic,
        f"{actor}.ppo_micro_batch_size_per_gpu": micro,
        f"{actor}.ppo_max_token_len_per_gpu": 16384,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": micro,
        f"{rollout}.log_prob_max_token_len_per_gpu": 16384,
        f"{rollout}.max_num_seqs": 256,
        f"{rollout}.max_num_batched_tokens": 8192,
    }
    space = resolve_space(TINY, facts, user)
    params = space.user_params()
    assert space.contains(params)
    assert space.overrides(params) == {key: user[key] for key in params}
