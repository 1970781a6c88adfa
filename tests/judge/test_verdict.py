import pytest

from autotune.job.model import GuardSection
from autotune.judge.evidence import Evidence
from autotune.judge.run_facts import RunFacts
from autotune.judge.verdict import judge_attempt
from autotune.records import AttemptEnd, GuardStop, LogEvidence, Outcome
from tests.judge.recorded import console_lines, metric_rows, read, rows


def ended(exit_code: int | None = 0, **fields) -> AttemptEnd:
    return AttemptEnd(at_s=200.0, exit_code=exit_code, asked=fields.pop("asked", False), **fields)


def line(kind: str, level: int) -> LogEvidence:
    return LogEvidence(line_number=5, text="the text", kind=kind, phase="rollout", level=level, at_s=1.0)


def judged(*events, steps_asked: int = 3, **limits):
    evidence = Evidence.from_events(events)
    return judge_attempt(evidence, steps_asked=steps_asked, warmup_steps=1, guards=GuardSection(**limits))


def stop(kind: str) -> GuardStop:
    return GuardStop(kind=kind, phase="rollout", reason="because", at_s=100.0)


@pytest.mark.parametrize(
    ("events", "outcome", "kind"),
    [
        ([*rows(3), ended()], Outcome.COMPLETED, None),
        ([*rows(3), ended(1)], Outcome.COMPLETED, None),
        ([*rows(3), line("oom_gpu_checkpoint", 4), ended(1)], Outcome.COMPLETED, None),
        ([*rows(3), stop("hang_update"), ended(None, asked=True)], Outcome.COMPLETED, None),
        ([*rows(2), ended(0)], Outcome.INFRASTRUCTURE, "unknown"),
        ([*rows(2), line("oom_gpu_log_prob", 4), ended(1)], Outcome.FAILED, "oom_gpu_log_prob"),
        ([line("port_conflict", 6), ended(1)], Outcome.INFRASTRUCTURE, "port_conflict"),
        ([*rows(1), line("reward_function", 7), ended(1)], Outcome.USER_FAULT, "reward_function"),
        ([*rows(1), stop("hang_rollout"), ended(None, asked=True)], Outcome.FAILED, "hang_rollout"),
        ([*rows(1), ended(None, asked=True)], Outcome.STOPPED, None),
        ([*rows(1), ended(None, lost=True)], Outcome.INFRASTRUCTURE, "lost"),
        ([*rows(3, reward=[0.1, 0.2, None]), ended()], Outcome.FAILED, "nan_inf"),
        ([*rows(3, gradient=[1.0, None, None]), ended()], Outcome.FAILED, "nan_inf"),
        ([*rows(1), stop("nan_inf"), ended(None, asked=True)], Outcome.FAILED, "nan_inf"),
        ([*rows(2), stop("slower_than_best"), ended(None, asked=True)], Outcome.ENDED_EARLY, None),
        ([*rows(3), stop("slower_than_best"), ended(None, asked=True)], Outcome.COMPLETED, None),
        (
            [*rows(2, reward=[0.1, None]), stop("curve_behind"), ended(None, asked=True)],
            Outcome.FAILED,
            "nan_inf",
        ),
    ],
)
def test_outcomes(events, outcome, kind):
    verdict = judged(*events)
    assert verdict.outcome is outcome
    assert (verdict.failure.kind if verdict.failure else None) == kind


def test_a_limit_passed_in_the_last_step_counts_though_the_attempt_ended_by_itself():
    verdict = judged(*rows(3, kl=[0.1, 0.9, 0.9]), ended(), kl_limit=0.5)
    assert (verdict.outcome, verdict.failure.kind) == (Outcome.FAILED, "kl_drift")
    assert "0.9 in steps 2 to 3 (limit 0.5)" in verdict.failure.cause


def test_the_recorded_run_completes_and_tells_that_responses_are_cut_off():
    events = [*read(console_lines("grpo_tiny_40_steps")), *metric_rows("grpo_tiny_40_steps"), ended()]
    verdict = judged(*events, steps_asked=40)
    assert verdict.outcome is Outcome.COMPLETED
    assert verdict.figures.steps == 40
    assert any("cut off" in warning for warning in verdict.warnings)


def test_the_recorded_run_drifts_over_a_kl_limit():
    verdict = judged(*metric_rows("grpo_tiny_40_steps"), ended(), steps_asked=40, kl_limit=1.0)
    assert verdict.failure.kind == "kl_drift"


@pytest.mark.parametrize(
    ("events", "limits", "warning"),
    [
        ([*rows(3), ended(1)], {}, "verl exited 1 while it shut down"),
        ([*rows(3), ended(None)], {}, "verl was killed while it shut down"),
        ([*rows(3), line("disk_full", 9), ended()], {}, "the run went on after line 5 (disk_full): the text"),
        ([*rows(3), ended(left_behind=(41, 42))], {}, "could not be ended and may hold memory: 41, 42"),
        (
            [*rows(3), ended()],
            {"kl_limit": 0.5, "kl_metric": "actor/reward_kl_penalty"},
            "was never reported",
        ),
        ([*rows(4, throughput=[1.0, 500.0, 1000.0, 2000.0]), ended()], {}, "small gains cannot be told"),
        (
            [*rows(3, **{"training/rollout_probs_diff_mean": 0.05}), ended()],
            {},
            "probabilities differ by 0.05",
        ),
        (
            [*rows(3, **{"response/aborted_ratio": 0.1}), ended()],
            {},
            "10.0% of the last responses were aborted",
        ),
    ],
)
def test_warnings(events, limits, warning):
    assert any(warning in found for found in judged(*events, **limits).warnings)


def test_a_clean_run_has_no_warnings():
    assert judged(*rows(3), ended(), kl_limit=0.5).warnings == ()


CUT = {"response_length/clip_ratio": 0.75, "response_length/max": 48.0}


@pytest.mark.parametrize(
    ("limit", "told", "share"),
    [
        (48, ["75% of the last responses were cut off at 48 tokens"], 0.75),
        (64, [], 0.0),  # as long as the longest of their batch, which ended by itself
        (None, ["75% of the last responses are as long as the longest of their batch: likely cut off"], 0.75),
    ],
)
def test_responses_are_cut_off_at_the_limit_only(limit, told, share):
    evidence = Evidence.from_events([*rows(3, **CUT), ended()])
    facts = RunFacts(response_limit_tokens=limit, kl_estimator="k3")
    verdict = judge_attempt(evidence, steps_asked=3, warmup_steps=1, guards=GuardSection(), facts=facts)
    assert list(verdict.warnings) == told
    assert verdict.figures.truncated_frac == share
    assert verdict.figures.kl_estimator == "k3"


def test_signs_are_named_and_told_in_full_whatever_the_outcome():
    mismatch = {"training/rollout_probs_diff_mean": 0.05}
    for events, outcome in (
        ([*rows(3, **mismatch), ended()], Outcome.COMPLETED),
        ([*rows(2, **mismatch), line("oom_gpu_log_prob", 4), ended(1)], Outcome.FAILED),
    ):
        verdict = judged(*events)
        assert (verdict.outcome, verdict.signs) == (outcome, ("mismatch",))
        assert any("probabilities differ by 0.05" in warning for warning in verdict.warnings)


def test_samples_that_differ_from_the_chat_template_are_told():
    checked = {"autotune/token_faults": [3.0, None, None], "autotune/tokens_checked": [64.0, None, None]}
    verdict = judged(*rows(3, **checked), ended())
    assert verdict.warnings == (
        "3 of 64 samples do not agree with the chat template: see `autotune token check` in console.log",
    )
    agreed = {**checked, "autotune/token_faults": [0.0, None, None]}
    assert judged(*rows(3, **agreed), ended()).warnings == ()
