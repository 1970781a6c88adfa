"""What curves say, by table: signs of the checklist's third level."""

import math

import pytest

from autotune.judge.signs import SignName
from autotune.ladder.diagnosis import moves
from tests.ladder.builders import CLIP, ENTROPY, KL, LR

KL_PENALTY = "algorithm.kl_ctrl.kl_coef"
KL_CONTROL = "algorithm.kl_ctrl.type"
TEMPERATURE = "actor_rollout_ref.rollout.temperature"

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

PULL = [(KL, 2.0), (KL_PENALTY, 2.0)]
RISE = [(LR, math.sqrt(0.9 * 0.12 / 0.08)), *PULL]
PEAK = [(CLIP, 0.5), (LR, 0.5)]
SWING = [(LR, 0.5), (ENTROPY, 2.0)]
MIDDLE = math.sqrt(0.05 * 0.12)
KL_UNDER = [(LR, math.sqrt(MIDDLE / 0.01)), (KL, 0.3), (KL_PENALTY, 0.3)]
NO_SIGNAL = [(ENTROPY, 2.0), (TEMPERATURE, 1.2)]


def kl_over(kl, factor=2.0):
    lr = max(math.sqrt(MIDDLE / kl), 0.1)
    return [(LR, lr), (KL, factor), (KL_PENALTY, factor), (KL_CONTROL, 1.0)]


@pytest.mark.parametrize(
    ("rewards", "kls", "expected"),
    [
        pytest.param(SLOW_RISE, INSIDE, RISE, id="rising slowly"),
        pytest.param(SLOW_RISE, [0.05] * 12, [(LR, math.sqrt(0.9 * 0.12 / 0.05)), *PULL], id="more room"),
        pytest.param(SLOW_RISE, [0.115] * 12, PULL, id="rising, but no room for larger steps"),
        pytest.param(STEEP_RISE, INSIDE, RISE, id="a steep climb is no swing"),
        pytest.param(EARLY_PEAK, INSIDE, PEAK, id="early peak, then fall"),
        pytest.param(FALLING, INSIDE, PEAK, id="falling from the start"),
        pytest.param(LATE_PEAK, INSIDE, RISE, id="a late peak is no fall"),
        pytest.param(SWINGING, INSIDE, SWING, id="swinging high"),
        pytest.param(SMALL_SWINGS, INSIDE, [], id="small swings"),
        pytest.param(FLAT, INSIDE, [], id="flat"),
        pytest.param(FLAT, [0.01] * 12, KL_UNDER, id="KL under its band"),
        pytest.param(SLOW_RISE, [0.01] * 12, KL_UNDER, id="rising, but hardly moving"),
        pytest.param(FLAT, [1e-6] * 12, [(LR, 3.0), (KL, 0.3), (KL_PENALTY, 0.3)], id="KL far under"),
        pytest.param(FLAT, [0.24] * 12, kl_over(0.24), id="KL over its band"),
        pytest.param(FLAT, [0.13] * 12, kl_over(0.13), id="KL just over"),
        pytest.param(FLAT, [12.0] * 12, kl_over(12.0, 10.0), id="KL far over"),
        pytest.param(
            EARLY_PEAK,
            [0.24] * 12,
            [*kl_over(0.24), *PEAK],
            id="KL over and fallen",
        ),
        pytest.param([], [], [], id="nothing"),
        pytest.param([0.1, 0.2, 0.3], [], [], id="too short to say"),
        pytest.param(SLOW_RISE, [], [(LR, 1.5), *PULL], id="KL not logged"),
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


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (SignName.NO_SIGNAL, NO_SIGNAL),
        (SignName.VALIDATION_FELL, [(KL, 2.0), (KL_PENALTY, 2.0), (LR, 0.5)]),
        (SignName.LENGTH_GREW, [(KL, 2.0), (KL_PENALTY, 2.0)]),
        (SignName.LENGTH_SHRANK, [(KL, 2.0), (KL_PENALTY, 2.0)]),
        (SignName.ENTROPY_FELL, [(ENTROPY, 2.0)]),
        (SignName.MISMATCH, RISE),
    ],
)
def test_signs_of_the_verdict_come_before_a_rise(sign, expected):
    found = moves(SLOW_RISE, INSIDE, BAND, [sign.value])
    assert [(move.key, move.factor) for move in found] == expected


def test_without_a_difference_in_reward_no_reward_curve_is_read():
    found = moves(EARLY_PEAK, [0.24] * 12, BAND, [SignName.NO_SIGNAL.value])
    assert [move.key for move in found] == [LR, KL, KL_PENALTY, KL_CONTROL, ENTROPY, TEMPERATURE]


def test_an_adaptive_coefficient_is_a_value_and_every_move_has_its_reason():
    found = moves(FLAT, [0.24] * 12, BAND)
    assert [move.value for move in found] == [None, None, None, "adaptive"]
    assert all(move.reason and move.reason != move.sign for move in found)
