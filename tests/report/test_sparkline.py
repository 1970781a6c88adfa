"""A curve is readable, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.report.sparkline import BARS, NOT_A_NUMBER, sparkline


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([0, 1, 2, 3, 4, 5, 6, 7], BARS),
        ([1.0, 1.0], BARS[4] * 2),
        ([None], "x"),
        ([0.0, None, float("nan"), 1.0], f"{BARS[0]}xx{BARS[7]}"),
        ([float("inf"), 0.0, 1.0], f"x{BARS[0]}{BARS[7]}"),
        ([-1.7e308, 1.7e308], BARS[0] + BARS[7]),
    ],
)
def test_known_curves(values, line):
    assert sparkline(values) == line


def test_long_curves_are_averaged_and_keep_their_nan():
    assert sparkline([0, 0, 1, 1], width=2) == BARS[0] + BARS[7]
    assert sparkline([0, None, 1, 1], width=2) == NOT_A_NUMBER + BARS[4]


@given(st.lists(st.none() | st.floats(), max_size=200), st.integers(1, 80))
def test_always_within_its_width(values, width):
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= {*BARS, NOT_A_NUMBER}


def test_no_width_at_all():
    with pytest.raises(ValueError, match="width must be at least 1, but got 0"):
        sparkline([1.0], width=0)
