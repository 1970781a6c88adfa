"""Who is launched although the forecast sees no hope, and who is not."""

import pytest

from autotune.forecast.rejection import AuditRecord, Judgement, PhaseForecast, is_audited
from autotune.ladder.prelaunch import SURE_OF_A_MOVE, rejection
from autotune.records import Candidate, Outcome
from tests.ladder.builders import SURVIVOR, speed_view, survive_view
from tests.search.builders import choice, space

REJECTED = next(number for number in range(1, 99) if not is_audited(number))
AUDITED = next(number for number in range(1, 99) if is_audited(number))
SPACE = space(choice("micro", 1, 4, 16, 64, current=64))


def judged(probability, phase="update_actor"):
    one = PhaseForecast(phase=phase, predicted_gb=90.0, expected_gb=95.0, sd_gb=2.0, largest_term="logits")
    return Judgement(capacity_gb=80.0, phases=(one,), probability_of_oom=probability, phase=phase)


def said(micro=16, origin="sampler", *, number=REJECTED, probability=0.97, record=None, phase="update_actor"):
    candidate = Candidate(params={"micro": micro}, origin=origin)
    view = survive_view(where=SPACE)
    return rejection(view, candidate, number, judged(probability, phase), record or AuditRecord())


def test_a_hopeless_candidate_is_rejected_with_its_cause():
    verdict = said()
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.figures.steps_asked == 4
    assert (verdict.failure.kind, verdict.failure.phase) == ("oom_gpu_actor_update", "update_actor")
    assert verdict.failure.cause.startswith("not launched, update_actor would need 95.0 +- 2.00 GB of 80.0")


@pytest.mark.parametrize(
    "case",
    [
        {"probability": 0.94},
        {"micro": 64},  # the user's own
        {"micro": 1},  # the safest
        {"number": AUDITED},
        {"record": AuditRecord(audited=2, survived=2)},
        {"origin": "repair of #0 (oom_gpu_actor_update): micro 64 -> 16", "probability": 0.97},
    ],
)
def test_it_runs_when(case):
    assert said(**case) is None


def test_a_repair_is_rejected_only_when_nearly_certain():
    assert said(origin="repair of #0 (oom_gpu_actor_update): x", probability=SURE_OF_A_MOVE) is not None


def test_the_start_of_a_later_stage_is_never_rejected():
    own = Candidate(params=SURVIVOR, origin="survivor, repeated")
    other = Candidate(params={**SURVIVOR, "micro": 16}, origin="one change from #0: micro 2 -> 16")
    view = speed_view()
    assert rejection(view, own, REJECTED, judged(0.99), AuditRecord()) is None
    assert rejection(view, other, REJECTED, judged(0.99), AuditRecord()) is not None


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        ("rollout", "oom_gpu_rollout_wakeup"),
        ("rollout_start", "oom_gpu_rollout_wakeup"),
        ("old_log_prob", "oom_gpu_log_prob"),
    ],
)
def test_the_kind_is_the_one_whose_repair_needs_less(phase, kind):
    assert said(phase=phase).failure.kind == kind
