import pytest

from autotune.judge.drift import machine_drift


def test_a_steady_trend_of_two_configurations_is_told():
    slow = [(place, 100.0 * 0.98**place) for place in (0, 3, 4, 7)]
    fast = [(place, 130.0 * 0.98**place * (1.001 if place == 1 else 1.0)) for place in (1, 2, 5, 6)]
    drift = machine_drift([slow, fast])
    assert drift.frac_per_run == pytest.approx(-0.02, abs=0.001)
    assert drift.total_frac == pytest.approx(0.98**7 - 1, abs=0.005)
    assert "-13." in str(drift)
    assert "over 7 runs" in str(drift)


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [[(0, 100.0)]],
        [[(0, 100.0), (1, 90.0)]],
        [[(0, 100.0), (5, 104.0), (9, 99.0), (14, 102.0)]],
        [[(0, 100.0), (1, 100.0), (2, 100.0), (3, 100.0)]],
    ],
    ids=["nothing", "one run", "two runs", "scatter", "constant"],
)
def test_what_chance_explains_is_no_drift(groups):
    assert machine_drift(groups) is None


def test_two_levels_are_no_drift():
    assert machine_drift([[(0, 100.0), (3, 101.0), (4, 99.0)], [(1, 200.0), (2, 199.0), (5, 201.0)]]) is None
