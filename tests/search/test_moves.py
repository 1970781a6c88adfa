"""Steps in a space: by table, and never out of the space whatever the range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.moves import changed, completed, is_among, neighbours, safest_point, scaled
from tests.search.builders import (
    BUDGET,
    DYNAMIC,
    ENGINE,
    MICRO,
    OFFLOAD,
    choice,
    memory_space,
    real,
    space,
    whole,
)

LOG_INT = whole("micro", 1, 32, log=True)
GRID_INT = whole("sequences", 16, 256, step=16)
PLAIN_INT = whole("workers", 0, 8)
GRID_FLOAT = real("share", 0.3, 0.9, step=0.05)
LOG_FLOAT = real("lr", 1e-7, 1e-4, log=True)
PLAIN_FLOAT = real("entropy", 0.0, 0.02)
NUMBERS = choice("tokens", 2048, 4096, 8192, 16384)
FALLING = choice("shards", 8, 4, 1)
SWITCH = choice("offload", True, False)


@pytest.mark.parametrize(
    ("parameter", "value", "factor", "expected"),
    [
        (LOG_INT, 16, 0.5, 8),
        (LOG_INT, 16, 0.25, 4),
        (LOG_INT, 3, 0.5, 1),
        (LOG_INT, 2, 0.1, 1),
        (LOG_INT, 1, 0.5, None),
        (LOG_INT, 3, 1.25, 4),
        (LOG_INT, 20, 2.0, 32),
        (LOG_INT, 32, 2.0, None),
        (GRID_INT, 256, 0.25, 64),
        (GRID_INT, 48, 0.5, 16),
        (GRID_INT, 80, 1.25, 112),
        (GRID_FLOAT, 0.6, 0.8, 0.45),
        (GRID_FLOAT, 0.5, 1.25, 0.65),
        (GRID_FLOAT, 0.85, 1.25, 0.9),
        (GRID_FLOAT, 0.3, 0.8, None),
        (LOG_FLOAT, 1e-6, 0.3, 3e-7),
        (LOG_FLOAT, 2e-7, 0.3, 1e-7),
        (PLAIN_FLOAT, 0.004, 2.0, 0.008),
        (PLAIN_FLOAT, 0.0, 2.0, 0.002),
        (PLAIN_FLOAT, 0.0, 0.5, None),
        (NUMBERS, 8192, 0.5, 4096),
        (NUMBERS, 8192, 0.1, 2048),
        (NUMBERS, 2048, 0.5, None),
        (NUMBERS, 4096, 1.5, 8192),
        (NUMBERS, 8192, 8.0, 16384),
        (FALLING, 4, 0.5, 1),
        (choice("entropy", 0, 0.001, 0.01), 0, 2.0, 0.001),
        (SWITCH, True, 0.5, None),
        (choice("backend", "vllm", "sglang"), "vllm", 2.0, None),
    ],
)
def test_scaled(parameter, value, factor, expected):
    assert scaled(parameter, value, factor) == expected


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        (LOG_INT, 8, [16, 4]),
        (LOG_INT, 32, [16]),
        (LOG_INT, 24, [32, 12]),
        (GRID_INT, 32, [48, 16]),
        (PLAIN_INT, 0, [1]),
        (GRID_FLOAT, 0.6, [0.65, 0.55]),
        (PLAIN_FLOAT, 0.0, [0.002]),
        (NUMBERS, 4096, [8192, 2048]),
        (FALLING, 8, [4]),
        (SWITCH, True, [False]),
        (SWITCH, None, []),
        (choice("sizes", [1, 2], [1, 2, 4]), [1, 2, 4], [[1, 2]]),
        (real("fixed", 0.5, 0.5), 0.5, []),
    ],
)
def test_neighbours_are_the_bolder_first(parameter, value, expected):
    assert neighbours(parameter, value) == pytest.approx(expected) if _floats(expected) else expected


def _floats(values):
    return all(isinstance(value, float) for value in values)


def test_a_step_up_and_down_again_is_the_same_point():
    (up, _) = neighbours(LOG_FLOAT, 1.3e-6)
    (_, back) = neighbours(LOG_FLOAT, up)
    assert is_among({"lr": back}, [{"lr": 1.3e-6}])


@pytest.mark.parametrize(
    ("params", "points", "expected"),
    [
        ({"a": 1}, [], False),
        ({"a": 1}, [{"a": 2}, {"a": 1}], True),
        ({"a": 0.1 + 0.2}, [{"a": 0.3}], True),
        ({"a": 1}, [{"a": True}], False),
        ({"a": 1}, [{"a": 1, "b": 2}], False),
        ({"a": [1, 2]}, [{"a": [1, 2]}], True),
        ({"a": None}, [{"a": 0}], False),
        ({}, [{}], True),
    ],
)
def test_is_among(params, points, expected):
    assert is_among(params, points) is expected


def test_completed_takes_the_users_value_then_the_safest():
    assert completed(memory_space(), {ENGINE: 0.4}) == {
        DYNAMIC: False,
        MICRO: 16,
        ENGINE: 0.4,
        OFFLOAD: False,
    }


def test_changed_switches_dependent_parameters():
    by_samples = completed(memory_space(), {})
    by_tokens = changed(memory_space(), by_samples, DYNAMIC, True)
    assert by_tokens == {DYNAMIC: True, BUDGET: 1024, ENGINE: 0.6, OFFLOAD: False}


def test_a_chain_of_conditions_collapses_at_once():
    chain = space(
        choice("a", True, False),
        choice("b", True, False, when="a", current=False),
        whole("c", 1, 4, when="b"),
    )
    assert changed(chain, {"a": True, "b": True, "c": 2}, "a", False) == {"a": False}


def test_safest_point_is_the_first_of_everything():
    assert safest_point(memory_space()) == {DYNAMIC: False, MICRO: 1, ENGINE: 0.3, OFFLOAD: True}


@st.composite
def parameters_and_values(draw):
    kind = draw(st.sampled_from(["int", "log int", "float", "log float", "grid float", "numbers"]))
    if kind == "numbers":
        choices = draw(st.lists(st.integers(1, 100_000), min_size=1, max_size=6, unique=True))
        return choice("x", *choices), draw(st.sampled_from(choices))
    if kind in ("int", "log int"):
        low = draw(st.integers(1, 100))
        step = 1 if kind == "log int" else draw(st.integers(1, 7))
        high = low + step * draw(st.integers(0, 50))
        value = low + step * draw(st.integers(0, (high - low) // step))
        more = {"log": True} if kind == "log int" else {"step": step}
        return whole("x", low, high, **more), value
    low = draw(st.floats(1e-7, 1.0))
    if kind == "grid float":
        step, count = draw(st.sampled_from([0.05, 0.1, 0.025])), draw(st.integers(0, 20))
        value = low + step * draw(st.integers(0, count))
        return real("x", low, low + step * count, step=step), value
    high = low * draw(st.floats(1.0, 1000.0))
    return real("x", low, high, log=kind == "log float"), draw(st.floats(low, high))


@given(parameters_and_values(), st.floats(0.05, 20.0))
def test_scaled_stays_in_range_and_on_its_side(drawn, factor):
    parameter, value = drawn
    moved = scaled(parameter, value, factor)
    if moved is not None:
        assert parameter.contains(moved)
        assert (moved > value) == (factor > 1.0)


@given(parameters_and_values())
def test_neighbours_stay_in_range(drawn):
    parameter, value = drawn
    found = neighbours(parameter, value)
    assert len(found) <= 2
    assert all(parameter.contains(neighbour) and neighbour != value for neighbour in found)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            DYNAMIC: st.booleans(),
            MICRO: st.integers(1, 32),
            BUDGET: st.integers(1024, 16384),
            OFFLOAD: st.booleans(),
        },
    )
)
def test_completed_points_are_in_the_space_and_final(params):
    whole_point = completed(memory_space(), params)
    assert memory_space().contains(whole_point)
    assert set(whole_point) == {parameter.key for parameter in memory_space().active(whole_point)}
    assert completed(memory_space(), whole_point) == whole_point
