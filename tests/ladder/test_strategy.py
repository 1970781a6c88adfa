"""The one door to the three stages."""

import pytest

from autotune.ladder import quality, speed, strategy, survive
from tests.ladder.builders import FASTEST, SURVIVOR, learned, quality_view, ran, speed_view, survive_view

SPEED = speed_view(ran(0, SURVIVOR, 1000.0))
QUALITY = quality_view(learned(0, FASTEST, [0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize(("view", "stage"), [(survive_view(), survive), (SPEED, speed), (QUALITY, quality)])
def test_next_move_is_the_stages(view, stage):
    assert strategy.next_move(view) == stage.next_move(view)


@pytest.mark.parametrize(("view", "stage"), [(SPEED, speed), (QUALITY, quality)])
def test_baseline_is_the_stages(view, stage):
    assert strategy.baseline(view) == stage.baseline(view)
    assert strategy.baseline(view) is not None


def test_survive_has_no_baseline():
    assert strategy.baseline(survive_view()) is None


@pytest.mark.parametrize(
    ("view", "device", "alone"),
    [
        (SPEED, "cpu", True),
        (SPEED, "gpu", False),
        (speed_view(alone=True), "gpu", True),
        (speed_view(alone=False), "cpu", False),
        (QUALITY, "cpu", False),
        (survive_view(), "cpu", False),
    ],
)
def test_only_what_shares_nothing_is_measured_beside_others(view, device, alone):
    assert strategy.measures_alone(view.section, device) is alone
