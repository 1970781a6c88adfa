"""What curves say, by table: signs of the checklist's third level."""

import math

import pytest

from autotune.ladder.diagnosis import moves
from tests.ladder.builders import CLIP, ENTROPY, KL, LR

BAND = (0.05, 0.12)
INSIDE = [0.08] * 12
SLOW_RISE = [0.10 + 0.01 * step for step in range(12)]
STEEP_RISE = [0.08 * step for step in range(12)]
FLAT = [0.3] * 12
EARLY_PEAK = [0.1, 0.3, 0.6, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2]
LATE_PEAK = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.8, 0.78, 0.78]
SWINGING = [0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.9, 0.4, 0.9, 0.4, 0.9, 0.6]
SMALL_SWINGS = [0.5 + 0.02 * (-1) ** step for step in range(12)]
FALLING = [0.9 - 0.05 * step for step in range(12)]

RISE = [(LR, 1.5), (KL, 2.0)]
PEAK = [(CLIP, 0.5), (LR, 0.5)]
SWING = [(LR, 0.5), (ENTROPY, 2.0)]
MIDDLE = math.sqrt(0.05 * 0.12)
KL_UNDER = [(LR, math.sqrt(MIDDLE / 0.01)), (KL, 0.3)]


@pytest.mark.parametrize(
    ("rewards", "kls", "expected"),
    [
        pytest.param(SLOW_RISE, INSIDE, RISE, id="rising slowly"),
        pytest.param(STEEP_RISE, INSIDE, RISE, id="a steep climb is no swing"),
        pytest.param(EARLY_PEAK, INSIDE, PEAK, id="early peak, then fall"),
        pytest.param(FALLING, INSIDE, PEAK, id="falling from the start"),
        pytest.param(LATE_PEAK, INSIDE, RISE, id="a late peak is no fall"),
        pytest.param(SWINGING, INSIDE, SWING, id="swinging high"),
        pytest.param(SMALL_SWINGS, INSIDE, [], id="small swings"),
        pytest.param(FLAT, INSIDE, [], id="flat"),
        pytest.param(FLAT, [0.01] * 12, KL_UNDER, id="KL under its band"),
        pytest.param(SLOW_RISE, [0.01] * 12, KL_UNDER, id="rising, but hardly moving"),
        pytest.param(FLAT, [1e-6] * 12, [(LR, 3.0), (KL, 0.3)], id="KL far under"),
        pytest.param(FLAT, [0.24] * 12, [(LR, math.sqrt(MIDDLE / 0.24)), (KL, 2.0)], id="KL over its band"),
        pytest.param(FLAT, [0.13] * 12, [(LR, math.sqrt(MIDDLE / 0.13)), (KL, 2.0)], id="KL just over"),
        pytest.param(FLAT, [12.0] * 12, [(LR, 0.1), (KL, 10.0)], id="KL far over"),
        pytest.param(
            EARLY_PEAK,
            [0.24] * 12,
            [(LR, math.sqrt(MIDDLE / 0.24)), (KL, 2.0), *PEAK],
            id="KL over and fallen",
        ),
        pytest.param([], [], [], id="nothing"),
        pytest.param([0.1, 0.2, 0.3], [], [], id="too short to say"),
        pytest.param(SLOW_RISE, [], RISE, id="KL not logged"),
    ],
)
def test_moves(rewards, kls, expected):
    found = [(move.key, move.factor) for move in moves(rewards, kls, BAND)]
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert [factor for _, factor in found] == pytest.approx([factor for _, factor in expected])


def test_only_the_end_of_the_kl_curve_counts():
    settled = [0.5] * 9 + [0.08] * 3
    assert moves(FLAT, settled, BAND) == []


def test_the_sign_names_the_figure_and_the_limit():
    (first, *_) = moves(FLAT, [0.24] * 12, BAND)
    assert first.sign == "KL 0.24 over 0.12"
    (first, *_) = moves(FLAT, [0.01] * 12, BAND)
    assert first.sign == "KL 0.01 under 0.05, the policy hardly moves"


def test_a_band_from_zero_has_no_under():
    assert moves(FLAT, [0.0] * 12, (0.0, 0.12)) == []


@pytest.mark.parametrize("offset", [-5.0, 0.0, 5.0])
def test_signs_do_not_depend_on_where_rewards_lie(offset):
    shifted = [reward + offset for reward in EARLY_PEAK]
    assert [(m.key, m.factor) for m in moves(shifted, INSIDE, BAND)] == PEAK


def test_factors_are_finite_for_any_overshoot():
    for kl in (0.1200001, 1.0, 1e9):
        assert all(math.isfinite(m.factor) and m.factor > 0 for m in moves(FLAT, [kl] * 4, BAND))
