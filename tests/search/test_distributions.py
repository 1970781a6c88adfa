"""Parameters as Optuna sees them, there and back."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from autotune.search.distributions import distribution, from_choice, to_choice
from tests.search.builders import choice, real, whole


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (whole("x", 1, 64, log=True), IntDistribution(1, 64, log=True)),
        (whole("x", 16, 256, step=16), IntDistribution(16, 256, step=16)),
        (whole("x", 2.0, 8.0), IntDistribution(2, 8)),
        (real("x", 0.3, 0.9, step=0.05), FloatDistribution(0.3, 0.9, step=0.05)),
        (real("x", 1e-7, 1e-5, log=True), FloatDistribution(1e-7, 1e-5, log=True)),
        (choice("x", None, True, "a", [1, 2]), CategoricalDistribution((None, True, "a", "json:[1, 2]"))),
    ],
)
def test_distribution(parameter, expected):
    assert distribution(parameter) == expected


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "text", [1, 2, 4], {"b": [1], "a": {"c": None}}, []])
def test_choices_come_back_as_they_were(value):
    assert from_choice(to_choice(value)) == value
