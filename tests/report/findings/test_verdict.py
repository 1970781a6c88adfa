"""What is said first."""

from autotune.report.findings.verdict import ConfirmedVerdict, headline


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


def test_a_confirmed_verdict_speaks_for_itself(studied):
    confirmed = ConfirmedVerdict(word="better", statement="1.31x to 1.44x the tokens/s/GPU.")
    said = headline(studied.rungs, confirmed)
    assert (said.word, said.sentence) == ("better", "1.31x to 1.44x the tokens/s/GPU.")
