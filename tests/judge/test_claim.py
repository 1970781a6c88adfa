import random
from statistics import fmean

import pytest

from autotune.judge.claim import claimed_gain, likeliest_mean, mean_after_test
from autotune.judge.intervals import MeanInterval, mean_interval, t_critical

CLEAR = (0.30, 0.31, 0.29, 0.30, 0.31, 0.29)


def test_what_no_test_could_have_missed_is_claimed_whole():
    more = (0.33, 0.27, 0.31)
    assert claimed_gain(CLEAR, more, 0.0375) == pytest.approx(fmean((*CLEAR, *more)), abs=1e-3)


def test_a_gain_that_later_values_do_not_show_is_not_claimed():
    lucky = (0.05, 0.06, 0.07)
    assert mean_interval(lucky, 0.05).low > 0.0
    assert claimed_gain(lucky, (-0.2, -0.1, -0.15), 0.05) == 0.0
    assert 0.0 < claimed_gain(lucky, (0.05, 0.04, 0.06), 0.05) < 0.06


def test_where_no_gain_was_found_all_values_count_alike():
    assert claimed_gain((0.3, -0.3), (0.1, 0.1), 0.05) == pytest.approx(0.05)
    assert claimed_gain((0.3, -0.3), (), 0.05) == pytest.approx(0.0)


def test_values_without_scatter_are_their_own_claim():
    assert claimed_gain((0.1, 0.1), (0.1,), 0.05) == pytest.approx(0.1)


def test_a_test_needs_two_values():
    with pytest.raises(ValueError, match="two values"):
        claimed_gain((0.1,), (), 0.05)


def drawn_claims(truth, first, more, studies):
    """(claimed, plain mean, mean of the later values) less the truth, of the studies that pass."""
    draw = random.Random(3)
    t = t_critical(0.05, first - 1)
    found = []
    for _ in range(studies):
        values = [draw.gauss(truth, 0.06) for _ in range(first + more)]
        decided, after = values[:first], values[first:]
        if mean_interval(decided, 0.05).low > 0.0:
            found.append(
                [x - truth for x in (mean_after_test(decided, after, t), fmean(decided), fmean(after))]
            )
    return [list(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize(("first", "more"), [(3, 3), (6, 3), (6, 1), (2, 2)])
def test_claims_are_free_of_the_bias_that_a_weak_test_brings(first, more):
    claimed, plain, later = drawn_claims(0.02, first, more, 2000)
    noise = (fmean(x * x for x in claimed) / len(claimed)) ** 0.5
    assert fmean(plain) > 0.025
    assert abs(fmean(claimed)) < 3.0 * noise
    assert fmean(x * x for x in claimed) < fmean(x * x for x in later)


def test_it_is_the_mean_of_what_could_have_passed():
    """Against its definition: equal mean and squares, any direction, the test passed."""
    values = (0.08, 0.05, 0.07, 0.01, 0.05)
    t = t_critical(0.05, 2)
    draw, found = random.Random(1), []
    mean = fmean(values)
    radius = sum((value - mean) ** 2 for value in values) ** 0.5
    while len(found) < 2000:
        direction = [draw.gauss(0.0, 1.0) for _ in values]
        middle = fmean(direction)
        size = sum((one - middle) ** 2 for one in direction) ** 0.5
        made = [mean + radius * (one - middle) / size for one in direction]
        if mean_interval(made[:3], 0.05).low > 0.0:
            found.append(fmean(made[3:]))
    assert mean_after_test(values[:3], values[3:], t) == pytest.approx(fmean(found), abs=0.0015)


def test_a_gain_that_just_passed_is_claimed_with_less():
    strong = MeanInterval(mean=0.30, low=0.24, high=0.36, standard_error=0.02)
    weak = MeanInterval(mean=0.07, low=0.01, high=0.13, standard_error=0.02)
    assert likeliest_mean(strong) == pytest.approx(0.30, abs=0.001)
    assert 0.01 <= likeliest_mean(weak) < 0.06
    assert likeliest_mean(MeanInterval(mean=0.05, low=-0.01, high=0.11, standard_error=0.02)) == 0.05
    assert likeliest_mean(MeanInterval(mean=0.05, low=0.05, high=0.05, standard_error=0.0)) == 0.05


@pytest.mark.parametrize("truth", [0.03, 0.04, 0.06])
def test_without_later_values_the_bias_is_at_least_halved(truth):
    draw = random.Random(3)
    plain, claimed = [], []
    for _ in range(2000):
        values = [draw.gauss(truth, 0.06) for _ in range(6)]
        interval = mean_interval(values, 0.05)
        if interval.low > 0.0:
            plain.append(interval.mean - truth)
            claimed.append(claimed_gain(values, (), 0.05) - truth)
    assert abs(fmean(claimed)) < 0.5 * fmean(plain)
