"""The interval of a ratio of speeds."""

import math
import random

import pytest

from autotune.report.findings.intervals import ratio_interval


def test_it_is_symmetric_in_the_logarithm_and_narrows_with_more_reference_runs():
    low, high = ratio_interval(1.4, 0.03, 1)
    assert low * high == pytest.approx(1.4**2)
    assert math.log(high / 1.4) == pytest.approx(1.96 * 0.03 * math.sqrt(2))
    assert ratio_interval(1.4, 0.03, 8)[0] > low


@pytest.mark.parametrize("runs", [1, 3])
def test_it_holds_the_true_ratio_nineteen_times_in_twenty(runs):
    chance, inside = random.Random(0), 0
    for _ in range(4000):
        reference = sum(chance.gauss(1.0, 0.03) for _ in range(runs)) / runs
        low, high = ratio_interval(chance.gauss(1.3, 1.3 * 0.03) / reference, 0.03, runs)
        inside += low <= 1.3 <= high
    assert inside / 4000 == pytest.approx(0.95, abs=0.015)
