import json
from dataclasses import replace

import pytest

from autotune.ladder import finish
from autotune.ladder.finish_words import comparison_text, is_confirmed, label, verdict_json
from autotune.records import Comparison, FinishOutcome
from tests.ladder.finish_builders import WINNER, ran_pairs, view_of


@pytest.fixture
def better():
    return finish.verdict(view_of(*ran_pairs(3, gain=0.3)))


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("tokens_per_s_per_gpu", "tokens/s +32.0 % [+25.0, -1.0]"),
        ("reward", "reward +0.320 [+0.250, -0.010]"),
        ("validation_reward", "validation reward +0.320 [+0.250, -0.010]"),
        ("peak_memory_gb", "peak memory +0.320 GB [+0.250, -0.010]"),
    ],
)
def test_a_comparison_in_words(metric, text):
    told = Comparison(
        metric=metric,
        gain=0.33,
        claimed=0.32,
        low=0.25,
        high=-0.01,
        reference=1.0,
        winner=1.32,
        outcome=FinishOutcome.BETTER,
    )
    assert comparison_text(told) == text


def test_a_confirmed_winner_is_labelled_with_its_interval(better):
    assert label(better, WINNER).startswith("confirmed: better, tokens/s +30.0 % [+")
    assert is_confirmed(better, WINNER)


def test_what_is_not_confirmed_is_labelled_so(better):
    weak = replace(better, outcome=FinishOutcome.INCONCLUSIVE, statement="inconclusive: noise")
    for verdict, overrides in ((None, WINNER), (weak, WINNER), (better, {"micro": 4})):
        assert label(verdict, overrides).startswith("NOT CONFIRMED: ")
        assert not is_confirmed(verdict, overrides)


def test_the_json_answer_is_plain(better):
    answer = verdict_json(better)
    assert json.loads(json.dumps(answer, allow_nan=False))["outcome"] == "better"
    assert answer["reference"] == "user configuration"
    assert answer["comparisons"][0]["outcome"] == "better"
    assert answer["label"].startswith("confirmed: ")
