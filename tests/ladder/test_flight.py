"""What follows after an attempt: retries, the certificate, the verdict on the whole trial."""

import pytest

from autotune.judge.kinds import KINDS
from autotune.ladder.flight import Abandon, EndedAttempt, Launch, Tell, after_attempt, needs_certificate
from autotune.records import AttemptRole, Failure, FailureGroup, Outcome, Verdict
from tests.ladder.builders import (
    completed,
    failed,
    figures,
    quality_section,
    speed_section,
    survive_section,
)

MEASURE, CERTIFICATE = AttemptRole
SURVIVE = survive_section()


def measured(verdict):
    return EndedAttempt(MEASURE, verdict)


def proved(verdict):
    return EndedAttempt(CERTIFICATE, verdict)


@pytest.mark.parametrize("kind", KINDS)
def test_retries_by_kind(kind):
    """The same again as often as the kind allows, and what follows when it keeps failing."""
    attempts = []
    for _ in range(KINDS[kind].retries + 1):
        attempts.append(measured(failed(kind)))
        following = after_attempt(SURVIVE, attempts)
        if len(attempts) <= KINDS[kind].retries:
            assert following == Launch(MEASURE, f"retry after {kind}")
    last = Abandon if KINDS[kind].group is FailureGroup.USER else Tell
    assert following == last(attempts[-1].verdict)


@pytest.mark.parametrize(("kind", "retries"), [("port_conflict", 2), ("ray_init", 1), ("disk_full", 0)])
def test_retry_limits_of_the_taxonomy(kind, retries):
    attempts = [measured(failed(kind))] * retries
    assert isinstance(after_attempt(SURVIVE, [*attempts, measured(failed(kind))]), Tell)
    if attempts:
        assert isinstance(after_attempt(SURVIVE, attempts), Launch)


def test_kinds_are_counted_apart_so_that_retries_end():
    attempts = []
    for kind in ("cuda_fault", "ray_init", "cuda_fault"):
        attempts.append(measured(failed(kind)))
    assert isinstance(after_attempt(SURVIVE, attempts[:2]), Launch)
    assert isinstance(after_attempt(SURVIVE, attempts), Tell)


def test_a_survivor_goes_for_its_certificate():
    following = after_attempt(SURVIVE, [measured(completed())])
    assert following == Launch(CERTIFICATE, "longest prompts, every response at its limit")


def test_a_survivor_of_a_retry_does_too():
    following = after_attempt(SURVIVE, [measured(failed("port_conflict")), measured(completed())])
    assert isinstance(following, Launch)
    assert following.role is CERTIFICATE


@pytest.mark.parametrize(
    ("section", "verdict"),
    [
        (survive_section(certificate=None), completed()),
        (SURVIVE, completed(peak=0.9)),
        (SURVIVE, completed(steps=3)),
        (SURVIVE, failed("nan_inf")),
        (speed_section(), completed()),
        (quality_section(), completed()),
    ],
)
def test_no_certificate(section, verdict):
    assert not needs_certificate(section, verdict)
    assert after_attempt(section, [measured(verdict)]) == Tell(verdict)


def test_a_certificate_adds_the_worst_memory_to_the_measured_figures():
    first = Verdict(
        outcome=Outcome.COMPLETED,
        figures=figures(peak=0.6, phase="rollout", reward=0.4, peak_memory_gb=48.0),
        warnings=("noisy", "clipped"),
    )
    proof = Verdict(
        outcome=Outcome.COMPLETED,
        figures=figures(
            2,
            2,
            peak=0.75,
            phase="update_actor",
            reward=0.1,
            peak_memory_gb=60.0,
            peak_by_phase_frac={"update_actor": 0.75, "rollout": 0.55},
        ),
        warnings=("clipped", "long"),
    )
    following = after_attempt(SURVIVE, [measured(first), proved(proof)])
    assert isinstance(following, Tell)
    verdict = following.verdict
    assert verdict.outcome is Outcome.COMPLETED
    assert verdict.figures == figures(
        peak=0.75,
        phase="update_actor",
        reward=0.4,
        peak_memory_gb=60.0,
        peak_by_phase_frac={"update_actor": 0.75, "rollout": 0.6},
    )
    assert verdict.warnings == ("noisy", "clipped")  # how the proof was asked to run is no news


@pytest.mark.parametrize("peak", [0.3, None])
def test_a_certificate_that_needs_less_lowers_nothing(peak):
    following = after_attempt(SURVIVE, [measured(completed(peak=0.6)), proved(completed(peak=peak))])
    assert following.verdict.figures == completed(peak=0.6).figures


def test_a_certificates_failure_is_the_trials():
    oom = failed("oom_gpu_actor_update", steps=1, asked=2, peak=0.97)
    following = after_attempt(SURVIVE, [measured(completed(peak=0.6)), proved(oom)])
    assert following == Tell(Verdict(outcome=Outcome.FAILED, figures=figures(peak=0.97), failure=oom.failure))


def test_a_certificate_is_retried_as_a_certificate():
    attempts = [measured(completed()), proved(failed("cuda_fault"))]
    assert after_attempt(SURVIVE, attempts) == Launch(CERTIFICATE, "retry after cuda_fault")
    again = after_attempt(SURVIVE, [*attempts, proved(failed("cuda_fault"))])
    assert isinstance(again, Tell)
    assert again.verdict.outcome is Outcome.INFRASTRUCTURE
    passed = after_attempt(SURVIVE, [*attempts, proved(completed())])
    assert isinstance(passed, Tell)
    assert passed.verdict.outcome is Outcome.COMPLETED


def test_a_users_fault_in_the_certificate_stops_the_study():
    following = after_attempt(SURVIVE, [measured(completed()), proved(failed("reward_function"))])
    assert isinstance(following, Abandon)
    assert following.verdict.failure.kind == "reward_function"


def test_infrastructure_without_a_name_is_not_retried():
    verdict = Verdict(outcome=Outcome.INFRASTRUCTURE, figures=figures(0, 4, peak=None))
    assert after_attempt(SURVIVE, [measured(verdict)]) == Tell(verdict)


def test_an_unheard_of_kind_is_retried_like_an_unknown_one():
    failure = Failure(kind="new", group=FailureGroup.INFRASTRUCTURE, phase="rollout", cause="?")
    verdict = Verdict(outcome=Outcome.INFRASTRUCTURE, figures=figures(0, 4, peak=None), failure=failure)
    assert isinstance(after_attempt(SURVIVE, [measured(verdict)]), Launch)
    assert isinstance(after_attempt(SURVIVE, [measured(verdict)] * 2), Tell)


@pytest.mark.parametrize("section", [SURVIVE, speed_section()])
def test_out_of_memory_beside_what_others_left_is_tried_alone(section):
    doubtful = EndedAttempt(MEASURE, failed("oom_gpu_actor_update"), shared=True)
    following = after_attempt(section, [doubtful])
    assert (following.role, following.alone) == (MEASURE, True)
    alone = measured(failed("oom_gpu_actor_update"))
    assert after_attempt(section, [doubtful, alone]) == Tell(alone.verdict)


def test_other_failures_of_a_shared_process_are_the_candidates_own():
    verdict = failed("kl_drift")
    assert after_attempt(SURVIVE, [EndedAttempt(MEASURE, verdict, shared=True)]) == Tell(verdict)
