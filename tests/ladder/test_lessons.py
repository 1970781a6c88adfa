"""What finished trials teach the memory forecast, and what their audits say of it."""

import random

import pytest

from autotune.forecast.correction import GPU
from autotune.forecast.memory import USABLE_FRAC
from autotune.forecast.rejection import Judgement, PhaseForecast
from autotune.ladder.flight import EndedAttempt
from autotune.ladder.lessons import Lesson, Lessons, audits, corrected, measured_peaks
from autotune.records import AttemptRole, Figures, Outcome, Verdict
from tests.ladder.builders import completed, failed, figures

MEASURE, CERTIFICATE = AttemptRole.MEASURE, AttemptRole.CERTIFICATE


def judged(predicted_gb=50.0, probability=0.1):
    phases = tuple(
        PhaseForecast(
            phase=phase,
            predicted_gb=predicted_gb * share,
            expected_gb=predicted_gb * share,
            sd_gb=5.0,
            largest_term="logits",
            at_limit_gb=2 * predicted_gb * share,
        )
        for phase, share in (("old_log_prob", 0.5), ("update_actor", 1.0))
    )
    return Judgement(
        capacity_gb=80.0, phases=phases, probability_of_oom=probability, phase="update_actor", measurements=0
    )


def taught(role, verdict, *, shared=False):
    return [
        (one.phase, one.predicted_gb, pytest.approx(one.measured_gb), one.is_bound)
        for one in measured_peaks(judged(), EndedAttempt(role, verdict, shared))
    ]


def test_a_measured_peak_stands_against_what_was_predicted_for_its_lengths():
    assert taught(MEASURE, completed(peak=0.7)) == [("update_actor", 50.0, 56.0, False)]
    assert taught(CERTIFICATE, completed(peak=0.9)) == [("update_actor", 100.0, 72.0, False)]


def test_what_the_forecast_does_not_know_is_left_out():
    assert taught(MEASURE, completed(peak=0.7, phase="reward")) == []


def test_running_out_of_memory_is_a_bound_where_it_did_and_a_peak_elsewhere():
    by_phase = {"old_log_prob": 0.5, "update_actor": 0.93}
    verdict = failed("oom_gpu_actor_update", steps=2, peak_by_phase_frac=by_phase)
    assert taught(MEASURE, verdict) == [
        ("old_log_prob", 25.0, 40.0, False),
        ("update_actor", 50.0, 80.0 * USABLE_FRAC, True),
    ]


def test_running_out_of_memory_where_others_had_run_is_no_bound():
    verdict = failed("oom_gpu_actor_update", steps=2, peak_by_phase_frac={"update_actor": 0.93})
    assert taught(MEASURE, verdict, shared=True) == []


def test_before_the_second_step_peaks_lack_the_optimizer():
    verdict = failed("oom_gpu_actor_update", steps=1, peak_by_phase_frac={"old_log_prob": 0.5})
    assert [phase for phase, *_, is_bound in taught(MEASURE, verdict) if not is_bound] == []


@pytest.mark.parametrize("kind", ["oom_gpu_rollout_init", "oom_host_ram", "oom_gpu_leak", "nan_inf"])
def test_no_other_failure_is_a_bound(kind):
    assert not any(is_bound for *_, is_bound in taught(MEASURE, failed(kind, steps=3, peak=0.9)))


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.INFRASTRUCTURE, Outcome.USER_FAULT])
def test_what_somebody_else_ended_teaches_nothing(outcome):
    assert taught(MEASURE, Verdict(outcome=outcome, figures=figures(3))) == []


def test_trials_correct_the_forecast():
    lessons = [Lesson(judged(), (EndedAttempt(MEASURE, completed(peak=0.75)),))] * 3
    correction = corrected(80.0, GPU, lessons)
    assert correction.measurements == 3
    assert correction.estimate("update_actor", 50.0).mean_gb == pytest.approx(60.0, abs=1.0)


def test_hopeless_ones_that_ran_are_audits():
    def lesson(probability, *verdicts):
        return Lesson(judged(probability=probability), tuple(EndedAttempt(MEASURE, v) for v in verdicts))

    record = audits(
        [
            lesson(0.99, failed("oom_gpu_actor_update")),
            lesson(0.99, completed()),
            lesson(0.99),  # rejected
            lesson(0.50, completed()),
            # Ended before memory could be seen.
            lesson(0.99, Verdict(outcome=Outcome.FAILED, figures=Figures())),
        ]
    )
    assert (record.audited, record.survived) == (2, 1)
    assert record.trusted


@pytest.mark.parametrize("late", [1, 8, 100])
def test_lessons_learned_one_by_one_are_those_learned_at_once(late):
    chance, known, waiting = random.Random(late), {}, []
    lessons = Lessons(GPU)
    for number in range(200):
        peak = chance.uniform(0.4, 1.0)
        frac = {"old_log_prob": peak / 2, "update_actor": peak}
        is_oom = chance.random() < 0.2
        verdict = (
            failed("oom_gpu_actor_update", steps=2, peak_by_phase_frac=frac)
            if is_oom
            else completed(peak_by_phase_frac=frac)
        )
        probability = chance.choice([0.1, 0.1, 1.0])
        lesson = Lesson(judged(chance.uniform(30, 70), probability), (EndedAttempt(MEASURE, verdict, False),))
        waiting.append((number, lesson))
        while len(waiting) >= late or (waiting and number == 199):
            ended, its_lesson = waiting.pop(chance.randrange(len(waiting)))
            known[1, ended] = its_lesson
            lessons.learn((1, ended), its_lesson)
            in_order = [known[key] for key in sorted(known)]
            if len(known) % 9 == 0:
                assert lessons.correction(80.0) == corrected(80.0, GPU, in_order)
            assert lessons.audits == audits(in_order)
