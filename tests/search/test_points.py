"""Points are found again whatever their order of keys, kind of number and last bits."""

import pytest

from autotune.search.moves import is_among
from autotune.search.points import Points, point_key


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 8}, {"a": 8.0}, True),
        ({"a": 1.3e-6}, {"a": 1.3e-6 * (1 + 1e-12)}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": [1, {"x": 2}]}, {"a": [1, {"x": 2}]}, True),
        ({"a": 0.3}, {"a": 0.30001}, False),
    ],
)
def test_keys_say_what_is_the_same_point(left, right, same):
    assert (point_key(left) == point_key(right)) is same
    assert is_among(left, Points([right])) is same
    assert is_among(left, [right]) is same


def test_points_are_a_sequence_in_the_order_of_trying():
    points = Points([{"a": 2}, {"a": 1}, {"a": 2}])
    assert list(points) == [{"a": 2}, {"a": 1}, {"a": 2}]
    assert (len(points), points[1], points[1:]) == (3, {"a": 1}, ({"a": 1}, {"a": 2}))


def test_points_grow_without_touching_those_they_grew_from():
    first = Points([{"a": 1}])
    second = first.with_point({"a": 2}, point_key({"a": 2}))
    third = second.with_point({"a": 1}, point_key({"a": 1}))
    branch = first.with_point({"a": 3}, point_key({"a": 3}))
    assert [list(one) for one in (first, second, third, branch)] == [
        [{"a": 1}],
        [{"a": 1}, {"a": 2}],
        [{"a": 1}, {"a": 2}, {"a": 1}],
        [{"a": 1}, {"a": 3}],
    ]
    assert [{"a": 2} in one for one in (first, second, third, branch)] == [False, True, True, False]
    assert {"a": 3} in branch
    assert {"a": 3} not in third
    assert (len(first), third[-1]) == (1, {"a": 1})
