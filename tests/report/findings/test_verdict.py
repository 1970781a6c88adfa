"""What is said first."""

from dataclasses import replace

import pytest

from autotune.records import FinishOutcome
from autotune.report.findings.verdict import headline
from tests.report.study import finish_verdict


def test_what_was_measured_while_tuning_is_not_confirmed(studied):
    said = studied.headline
    assert said.word == "not confirmed"
    assert said.sentence == (
        "Your configuration ended in oom_gpu_actor_update, the survivor peaks at 74 % of the device; "
        f"{studied.rungs[1].gain:.3f}"[:-1]
        + f"x the survivor's tokens/s/GPU; {studied.rungs[2].gain:.3f}"[:-1]
        + "x the baseline's reward."
    )
    assert "not run again" in said.basis


def test_a_finish_of_the_exported_configuration_speaks_for_itself(studied):
    finish = finish_verdict({"a.lr": 1e-6})
    said = headline(studied.rungs, finish, {"a.lr": 1e-6})
    assert (said.word, said.sentence) == (
        "better",
        "Tokens/s +31.0 % [+25.0, +39.0]; compared with the user's own configuration over 3 pairs of cold runs.",
    )
    assert "3 of at most 6 pairs" in said.basis
    assert "with a chance of at most 5 %." in said.basis
    assert said.basis.endswith("No validation data.")


@pytest.mark.parametrize("outcome", list(FinishOutcome))
def test_a_finish_of_another_configuration_confirms_nothing(studied, outcome):
    finish = replace(finish_verdict({"a.lr": 1e-6}), outcome=outcome)
    said = headline(studied.rungs, finish, {"a.lr": 2e-6})
    assert (said.word, said.sentence) == ("not confirmed", studied.headline.sentence)
    assert said.basis.endswith("The finish was run for another configuration.")


def test_a_winner_without_a_reference_claims_no_gain(studied):
    finish = replace(finish_verdict({}), reference=None, comparisons=(), pairs=0, notes=())
    said = headline(studied.rungs, finish, {})
    assert said.word == "better"
    assert "pairs" not in said.basis
