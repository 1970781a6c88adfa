"""Trials that cannot win: what is seen soon enough, and how seldom a winner is lost."""

import itertools
import random
import statistics

import pytest

from autotune.judge.early_end import (
    BestSpeed,
    chance_of_so_few,
    curve_behind,
    ranks_agree,
    slower_than_best,
)

BEST = BestSpeed(number=3, tokens_per_s=1000.0, low=960.0, step_noise_frac=0.03, step_noise_freedom=8)


@pytest.mark.parametrize(
    ("throughputs", "left", "ends"),
    [
        ([500.0, 510.0], 3, True),
        ([500.0], 4, False),  # one steady step
        ([500.0, 510.0], 0, False),  # nothing left to save
        ([950.0, 940.0], 3, False),  # inside the noise
        ([1200.0, 1190.0], 3, False),
        ([500.0, 900.0], 3, False),  # its own noise reaches the best
        ([300.0, 600.0, 950.0], 2, False),  # still getting faster
        ([], 5, False),
    ],
)
def test_a_trial_ends_only_where_its_noise_cannot_carry_it_to_the_best(throughputs, left, ends):
    assert (slower_than_best(throughputs, left, BEST) is not None) is ends


def test_the_reason_has_the_figures():
    reason = slower_than_best([500.0, 510.0], 3, BEST)
    assert "505 tokens/s/GPU over 2 steady steps" in reason
    assert "#3 has 1000 (at least 960)" in reason


def test_without_the_studys_noise_two_steps_are_hardly_ever_enough():
    alone = BestSpeed(number=0, tokens_per_s=1000.0, low=960.0, step_noise_frac=0.0, step_noise_freedom=0)
    assert slower_than_best([600.0, 615.0], 3, alone) is None
    assert slower_than_best([600.0, 615.0, 605.0, 610.0, 612.0], 10, alone) is not None


@pytest.mark.parametrize("noise_frac", [0.01, 0.03, 0.1])
def test_trials_as_fast_as_the_best_are_almost_never_ended(noise_frac):
    """Every step is looked at, so the error of a single look must leave room for all of them."""
    chance = random.Random(7)
    best = BestSpeed(
        number=0, tokens_per_s=1000.0, low=1000.0, step_noise_frac=noise_frac, step_noise_freedom=8
    )
    lost = 0
    for _ in range(1000):
        steps = [1000.0 * chance.gauss(1.0, noise_frac) for _ in range(12)]
        lost += any(slower_than_best(steps[:n], 12 - n, best) for n in range(2, 12))
    assert lost <= 15


def test_half_as_fast_is_seen_after_two_or_three_steps():
    chance = random.Random(7)
    needed = []
    for _ in range(200):
        steps = [500.0 * chance.gauss(1.0, 0.03) for _ in range(20)]
        needed.append(next(n for n in range(2, 20) if slower_than_best(steps[:n], 20 - n, BEST)))
    assert statistics.quantiles(needed, n=20)[-1] <= 3


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_chance_of_few_inversions_is_a_count_of_orders(count):
    orders = list(itertools.permutations(range(count)))
    inversions = [sum(a > b for a, b in itertools.combinations(order, 2)) for order in orders]
    for most in range(count * (count - 1) // 2 + 1):
        expected = sum(found <= most for found in inversions) / len(orders)
        assert chance_of_so_few(most, count) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("short", "final", "agree"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], False),  # too few
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], True),
        ([1, 2, 3, 4, 5], [1, 2, 3, 5, 4], True),
        ([1, 2, 3, 4, 5], [1, 3, 2, 5, 4], False),
        ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], False),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], False),  # ties foretell nothing
    ],
)
def test_short_ranks_have_to_foretell_final_ranks(short, final, agree):
    assert ranks_agree(short, final) is agree


def climbing(slope, steps=20):
    return [0.1 + slope * step for step in range(steps)]


ORDERED = [climbing(slope) for slope in (0.01, 0.015, 0.02, 0.025, 0.03, 0.035)]
CROSSING = [[0.6 + 0.05 * k * (step / 14 - 1) for step in range(20)] for k in range(6)]


def test_a_curve_far_behind_ends_where_ranks_agree():
    reason = curve_behind(climbing(0.001, 10), 20, ORDERED)
    assert "of 6 finished trials" in reason


@pytest.mark.parametrize(
    ("curve", "finished"),
    [
        (climbing(0.001, 4), ORDERED),  # too early
        (climbing(0.001, 20), ORDERED),  # over anyway
        (climbing(0.03, 10), ORDERED),  # among the better half
        (climbing(0.001, 10), ORDERED[:4]),  # too few have finished
        (climbing(0.001, 10), [curve[:12] for curve in ORDERED]),  # none of them is whole
        (climbing(0.001, 10), CROSSING),  # slow starters win in this study
        ([0.1, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.4], ORDERED),  # its noise may hide a good one
    ],
)
def test_no_curve_ends_where_nobody_can_tell(curve, finished):
    assert curve_behind(curve, 20, finished) is None
