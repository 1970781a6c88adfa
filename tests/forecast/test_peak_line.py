"""How far over the device where no forecast can be made: the line through measured peaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.forecast.peak_line import peak_on_line


@pytest.mark.parametrize(
    ("known", "tokens", "expected"),
    [
        ([(4096, 0.5), (8192, 0.7)], 16384, 1.1),
        ([(4096, 0.5), (8192, 0.7), (4096, 0.5)], 32768, 1.9),
        # One size: all of it is taken to scale with the tokens.
        ([(4096, 0.6)], 8192, 1.2),
        ([(4096, 0.5), (4096, 0.7)], 8192, 1.2),
        # More tokens never take less.
        ([(4096, 0.7), (8192, 0.5)], 65536, 0.6),
    ],
)
def test_the_line_is_followed(known, tokens, expected):
    assert peak_on_line(known, tokens) == pytest.approx(expected)


@pytest.mark.parametrize(("known", "tokens"), [([(4096, 0.3)], None), ([], 8192), ([(0, 0.5)], 8192)])
def test_without_points_or_tokens_it_says_nothing(known, tokens):
    assert peak_on_line(known, tokens) is None


POINTS = st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.01, 1.0)), min_size=1, max_size=8)


@given(POINTS, st.floats(1, 1e6), st.floats(1, 1e6))
def test_more_tokens_never_predict_less(known, one, other):
    small, large = sorted((one, other))
    low, high = peak_on_line(known, small), peak_on_line(known, large)
    assert low <= high + 1e-9 * abs(high)
