"""Whose turn it is: size, sessions, and nobody waits for ever."""

from dataclasses import replace

import pytest

from autotune.ladder.turn import PASSED_AT_MOST, Ask, Hold, Open, Start, next_turn


def turn(line, free=1, warm=(), batch=1, may_ask=True, **more):
    return next_turn(
        line, fits=lambda gpus: gpus <= free, warm=frozenset(warm), batch=batch, may_ask=may_ask, **more
    )


def trial(gpus=1, key=None, passed=0):
    return Open(gpus, key, passed)


@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        ([], {}, Ask()),
        ([], {"may_ask": False}, Hold()),
        ([trial()], {}, Start(0)),
        ([trial(4), trial(1)], {"free": 2}, Start(1)),
        ([trial(4)], {"free": 2}, Ask()),
        ([trial(4)], {"free": 2, "may_ask": False}, Hold()),
        ([trial(4), trial(4)], {"free": 2}, Hold()),
        ([trial(4, passed=PASSED_AT_MOST), trial(1)], {"free": 2}, Hold()),
        ([trial(4, passed=PASSED_AT_MOST), trial(1)], {"free": 4}, Start(0)),
        ([trial(4), trial(1)], {"free": 2, "passed_at_most": 0}, Hold()),
    ],
)
def test_a_large_trial_lets_smaller_ones_pass_for_a_while(line, options, expected):
    assert turn(line, **options) == expected


@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        ([trial(key="a")], {"warm": "b", "batch": 3}, Ask()),
        ([trial(key="a")], {"warm": "b", "batch": 1}, Start(0)),
        ([trial(key="a")], {"warm": "", "batch": 3}, Start(0)),
        ([trial(key="a")], {"warm": "b", "batch": 3, "may_ask": False}, Start(0)),
        ([trial(key="a"), trial(key="b")], {"warm": "b", "batch": 3}, Start(1)),
        ([trial(key="a"), trial(2, key="b")], {"warm": "b", "batch": 2}, Start(0)),
        ([trial(key="a"), trial(key="c"), trial(key="d")], {"warm": "b", "batch": 3}, Start(0)),
        ([trial(key="a", passed=PASSED_AT_MOST), trial(key="b")], {"warm": "b", "batch": 3}, Start(0)),
        ([trial(key=None)], {"warm": "b", "batch": 2}, Ask()),
    ],
)
def test_a_session_that_waits_takes_one_of_its_key(line, options, expected):
    assert turn(line, **options) == expected


def passed_by(line, taken):
    """The line after the trial at `taken` started and one like it came."""
    moved = [replace(one, passed=one.passed + 1) if i < taken else one for i, one in enumerate(line)]
    return [*moved[:taken], *moved[taken + 1 :], line[taken]]


@pytest.mark.parametrize(("free", "warm"), [(1, ()), (2, "b")])
def test_nobody_is_passed_more_often_than_that(free, warm):
    line, starts = [trial(2, key="a"), trial(1, key="b")], 0
    while True:
        found = turn(line, free=free, warm=warm, batch=2)
        if found in (Hold(), Start(0)):
            break
        line, starts = passed_by(line, found.place), starts + 1
    assert starts == PASSED_AT_MOST
