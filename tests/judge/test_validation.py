import pytest

from autotune.judge.validation import Validation, final_validation, validation_reward, validations
from tests.judge.recorded import rows

TINY, MATH = "val-core/tiny/endings/reward/mean@1", "val-core/gsm8k/acc/mean@4"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({TINY: 0.5}, 0.5),
        ({TINY: 0.5, MATH: 0.7}, 0.6),
        ({MATH: 0.7, "val-core/gsm8k/acc/best@4/mean": 0.9, "val-aux/gsm8k/reward/mean@4": 0.1}, 0.7),
        ({MATH: None}, None),
        ({"val-core/a/acc/mean@1": 0.2, "val-core/a/acc/mean@8": 0.4, "val-core/b/acc/mean@1": 0.6}, 0.5),
        ({"val-core/a/acc/best@8/mean": 0.9, "val-core/a/acc/maj@8/mean": 0.9}, None),
        ({"critic/rewards/mean": 0.5}, None),
    ],
)
def test_the_mean_over_data_sources(values, expected):
    found = validation_reward(values)
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_last_validations_count():
    column = [None, 0.1, None, 0.2, None, 0.5, None, 0.7]
    made = rows(8, **{TINY: column})
    assert validations(made) == [
        Validation(2, 0.1),
        Validation(4, 0.2),
        Validation(6, 0.5),
        Validation(8, 0.7),
    ]
    assert final_validation(made, made[-3:]) == pytest.approx(0.6)
    assert final_validation(made, made[-1:]) == pytest.approx(0.7)
    assert final_validation(made[:7], made[6:7]) == pytest.approx(0.5)
    assert final_validation(rows(3), rows(3)) is None
