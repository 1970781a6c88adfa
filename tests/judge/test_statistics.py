import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.judge import statistics

NUMBERS = st.floats(-1e6, 1e6)


def test_what_is_not_a_number_is_left_out():
    assert statistics.finite([1, None, math.nan, math.inf, 2.5]) == [1.0, 2.5]


@pytest.mark.parametrize("function", [statistics.mean, statistics.median, statistics.noise_frac])
def test_nothing_measured_is_none(function):
    assert function([]) is None
    assert function([None, math.nan]) is None


def test_one_outlier_does_not_change_the_spread():
    calm, spiked = [10.0, 11.0, 9.0, 10.0, 10.5], [10.0, 11.0, 9.0, 10.0, 1000.0]
    assert statistics.noise_frac(spiked) == pytest.approx(statistics.noise_frac(calm), abs=0.15)


def test_noise_has_no_scale_at_zero():
    assert statistics.noise_frac([-1.0, 0.0, 1.0]) is None


@given(st.lists(NUMBERS.filter(lambda value: abs(value) > 1), min_size=2), st.floats(0.1, 100))
def test_relative_noise_does_not_depend_on_the_unit(values, factor):
    before, after = statistics.noise_frac(values), statistics.noise_frac([value * factor for value in values])
    if before is not None and after is not None:
        assert after == pytest.approx(before, rel=1e-6, abs=1e-9)


@given(st.floats(-100, 100), st.floats(-1000, 1000), st.integers(4, 30))
def test_a_straight_line_has_its_slope_and_no_scatter(gradient, offset, count):
    values = [offset + gradient * index for index in range(count)]
    assert statistics.slope(list(enumerate(values))) == pytest.approx(gradient, abs=1e-6)
    assert statistics.detrended_std(values) == pytest.approx(0.0, abs=1e-6)


def test_scatter_needs_four_values():
    assert statistics.detrended_std([1.0, 2.0, 3.0]) is None
    assert statistics.slope([(1.0, 2.0), (1.0, 3.0)]) is None


def test_the_noise_floor_of_two_runs_is_their_range_over_1_13():
    assert statistics.noise_floor_frac([95.0, 105.0]) == pytest.approx(0.10 / 1.128, rel=1e-3)
    assert statistics.noise_floor_frac([100.0]) is None
    assert statistics.noise_floor_frac([-1.0, 0.0, 1.0]) is None


def test_half_widths_need_two_values():
    assert statistics.median_half_width([5.0]) is None
    assert statistics.median_half_width([5.0, 5.0, 5.0]) == 0.0
    assert statistics.mean_half_width(1.0, 1) is None
    assert statistics.mean_half_width(2.0, 4) == pytest.approx(3.182, rel=1e-3)


@pytest.mark.parametrize(("degrees", "other"), [(4, 8), (10, 10), (4, 50)])
def test_equal_noise_scatters_more_than_the_ratio_in_about_one_of_100_pairs(degrees, other):
    chance = random.Random(0)

    def scatter(count):
        return math.sqrt(math.fsum(chance.gauss(0.0, 1.0) ** 2 for _ in range(count)) / count)

    limit = statistics.scatter_ratio(degrees, other)
    over = sum(scatter(degrees) > limit * scatter(other) for _ in range(10_000)) / 10_000
    assert 0.006 < over < 0.014


def test_scatter_of_one_degree_says_nothing():
    assert statistics.scatter_ratio(4, 1) == math.inf
    assert statistics.scatter_ratio(0, 4) > statistics.scatter_ratio(2, 4)


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (2, 2), (3, 3), (12, 3), (13, 4), (40, 10)])
def test_the_last_quarter_is_rounded_up_and_at_least_three_steps(count, kept):
    steps = list(range(count))
    assert statistics.last_quarter(steps) == steps[count - kept :]
