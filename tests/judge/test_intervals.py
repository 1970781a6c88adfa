import random

import pytest

from autotune.judge.intervals import mean_interval, t_critical


@pytest.mark.parametrize(
    ("alpha", "df", "t"),
    [
        (0.05, 1, 12.706),
        (0.05, 2, 4.3027),
        (0.05, 3, 3.1824),
        (0.01, 4, 4.6041),
        (0.05, 5, 2.5706),
        (0.10, 10, 1.8125),
        (0.05, 30, 2.0423),
        (0.05, 120, 1.9799),
        (0.0125, 2, 8.8602),
    ],
)
def test_quantiles_of_the_printed_tables(alpha, df, t):
    assert t_critical(alpha, df) == pytest.approx(t, rel=1e-4)


@pytest.mark.parametrize(("alpha", "df"), [(0.0, 3), (1.0, 3), (0.05, 0)])
def test_what_has_no_quantile_is_refused(alpha, df):
    with pytest.raises(ValueError, match="alpha must be"):
        t_critical(alpha, df)


def test_one_value_has_no_interval():
    assert mean_interval([3.0], 0.05) is None


@pytest.mark.parametrize("count", [2, 3, 6])
def test_the_interval_covers_the_truth_as_often_as_it_says(count):
    draw = random.Random(7)
    missed = 0
    for _ in range(4000):
        interval = mean_interval([draw.gauss(5.0, 2.0) for _ in range(count)], 0.05)
        missed += not interval.low <= 5.0 <= interval.high
    assert 0.035 < missed / 4000 < 0.065
