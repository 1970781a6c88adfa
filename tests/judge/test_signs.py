"""Signs of a whole curve, each with the figures that show it."""

import pytest

from autotune.judge.signs import SignName, signs
from tests.judge.recorded import metric_rows, rows

RISING = [0.2 + 0.03 * step + 0.01 * (-1) ** step for step in range(16)]
FLAT = [0.5 + 0.01 * (-1) ** step for step in range(16)]
GROWING = [100.0 * 1.1**step for step in range(16)]
SHRINKING = GROWING[::-1]
FALLING = [2.0 * 0.8**step for step in range(16)]


def validated(*rewards, every=4):
    """A validation reward in each `every`-th of 16 steps."""
    column = [None] * 16
    for index, reward in enumerate(rewards):
        column[(index + 1) * every - 1] = reward
    return column


def told(**columns):
    return {sign.name: sign.text for sign in signs(rows(16, **columns))}


@pytest.mark.parametrize(
    ("columns", "name", "text"),
    [
        (
            {"reward": RISING, "response_length/mean": GROWING},
            SignName.LENGTH_GREW,
            "the reward rose from 0.245 to 0.605 while responses went from 116 to 364 tokens",
        ),
        (
            {"reward": RISING, "response_length/mean": SHRINKING},
            SignName.LENGTH_SHRANK,
            "responses went from 364 to 116 tokens: the reward may pay for brevity",
        ),
        (
            {"reward": RISING, "entropy": FALLING},
            SignName.ENTROPY_FELL,
            "entropy fell from 1.48 to 0.101 while the reward rose from 0.245 to 0.605",
        ),
        ({"reward": FLAT, "entropy": FALLING}, SignName.ENTROPY_FELL, "entropy fell from 1.48 to 0.101: "),
        (
            {"reward": RISING, "val-core/gsm8k/acc/mean@1": validated(0.4, 0.6, 0.55, 0.5)},
            SignName.VALIDATION_FELL,
            "validation reward fell from 0.6 in step 8 to 0.5 in step 16 while the training reward rose",
        ),
        (
            {"autotune/groups_without_variance_frac": [0.2] * 8 + [0.9] * 8},
            SignName.NO_SIGNAL,
            "in 90% of the last groups all responses earned the same",
        ),
        (
            {"critic/advantages/max": 0.0, "critic/advantages/min": 0.0},
            SignName.NO_SIGNAL,
            "every advantage was 0 in the last 4 steps",
        ),
        ({"training/rollout_probs_diff_mean": 0.05}, SignName.MISMATCH, "differ by 0.05"),
        ({"training/rollout_actor_probs_pearson_corr": 0.8}, SignName.MISMATCH, "correlate by 0.800"),
    ],
)
def test_a_sign_with_its_figures(columns, name, text):
    found = told(**columns)
    assert list(found) == [name]
    assert text in found[name]


@pytest.mark.parametrize(
    "columns",
    [
        {"reward": RISING, "response_length/mean": 100.0, "entropy": 2.0},
        {"reward": FLAT, "response_length/mean": GROWING},
        {"reward": FLAT, "val-core/gsm8k/acc/mean@1": validated(0.6, 0.4)},
        {"reward": RISING, "val-core/gsm8k/acc/mean@1": validated(0.4, 0.6, 0.59, 0.58)},
        {"reward": RISING, "val-core/gsm8k/acc/mean@1": validated(0.4)},
        {"critic/advantages/max": 1.0, "critic/advantages/min": -1.0},
        {"autotune/groups_without_variance_frac": 0.5},
        {"training/rollout_probs_diff_mean": 0.001, "training/rollout_actor_probs_pearson_corr": 0.999},
    ],
)
def test_no_sign(columns):
    assert told(**columns) == {}


def test_a_course_needs_enough_steps():
    columns = {"reward": RISING[:7], "entropy": FALLING[:7], "response_length/mean": GROWING[:7]}
    assert signs(rows(7, **columns)) == []


def test_the_recorded_run_has_no_sign():
    assert signs(metric_rows("grpo_tiny_40_steps")) == []
