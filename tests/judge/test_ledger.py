"""Device time booked by stage and outcome, savings, and when tuning pays back."""

import pytest

from autotune.judge.ledger import Cost, LedgerEntry, Start, ledger, pay_back
from autotune.records import Figures, Outcome, StageName, StageResult, Verdict

SURVIVE, SPEED = StageName.SURVIVE, StageName.SPEED


def cost(stage, outcome, gpu_s, devices=1, **figures):
    verdict = Verdict(outcome=outcome, figures=Figures(**figures)) if outcome else None
    return Cost(stage=stage, verdict=verdict, gpu_s=gpu_s, devices=devices)


def test_device_time_is_booked_by_stage_and_outcome_in_climbing_order():
    books = ledger(
        [
            cost(SPEED, Outcome.COMPLETED, 50.0),
            cost(SURVIVE, Outcome.FAILED, 70.0),
            cost(SURVIVE, Outcome.COMPLETED, 90.0),
            cost(SURVIVE, Outcome.FAILED, 30.0),
            cost(SPEED, None, 5.0),
        ]
    )
    assert books.entries == (
        LedgerEntry(stage=SURVIVE, outcome="completed", trials=1, gpu_s=90.0),
        LedgerEntry(stage=SURVIVE, outcome="failed", trials=2, gpu_s=100.0),
        LedgerEntry(stage=SPEED, outcome="completed", trials=1, gpu_s=50.0),
        LedgerEntry(stage=SPEED, outcome="running", trials=1, gpu_s=5.0),
    )
    assert books.gpu_s == 245.0
    assert books.saved_by_warmth_gpu_s == 0.0


@pytest.mark.parametrize(
    ("figures", "gpu_s", "saved_gpu_s"),
    [
        ({"steps": 4, "steps_asked": 10, "step_s": 3.0}, 200.0, 6 * 3.0 * 2),
        ({"steps": 4, "steps_asked": 10, "start_s": 60.0}, 200.0, 6 * 10.0 * 2),  # (100 s - 60 s) / 4 steps
        ({"steps": 10, "steps_asked": 10, "step_s": 3.0}, 200.0, 0.0),
        ({"steps": 0, "steps_asked": 10}, 200.0, 0.0),
    ],
)
def test_an_early_end_saves_the_steps_it_did_not_make(figures, gpu_s, saved_gpu_s):
    assert (
        ledger([cost(SPEED, Outcome.ENDED_EARLY, gpu_s, 2, **figures)]).saved_by_early_end_gpu_s
        == saved_gpu_s
    )
    assert ledger([cost(SPEED, Outcome.FAILED, gpu_s, 2, **figures)]).saved_by_early_end_gpu_s == 0.0


def test_a_refusal_saves_what_a_failed_trial_costs_here():
    refused = [cost(SURVIVE, Outcome.REJECTED, 0.0)] * 2
    failed = [cost(SURVIVE, Outcome.FAILED, gpu_s) for gpu_s in (60.0, 80.0, 400.0)]
    assert ledger([*refused, *failed]).saved_by_rejection_gpu_s == 160.0
    assert ledger(refused).saved_by_rejection_gpu_s == 0.0


def result(base, best, step_s=10.0):
    return {
        SPEED: StageResult(
            stage=SPEED,
            trials=9,
            accepted=(),
            acceptance_met=False,
            best=1,
            statement="",
            baseline=Figures(tokens_per_s_per_gpu=base, step_s=step_s),
            best_figures=Figures(tokens_per_s_per_gpu=best, step_s=1.0),
        )
    }


BOOKS = ledger([cost(SPEED, Outcome.COMPLETED, 7200.0)])


def test_tuning_pays_back_by_the_time_that_equal_tokens_take_less():
    paid = pay_back(BOOKS, result(1000.0, 1250.0), gpus=8)
    assert paid.saved_gpu_s_per_100_steps == pytest.approx(100 * 10.0 * 8 * 0.2)
    assert paid.steps_to_pay_back == pytest.approx(7200.0 / 16.0)


def test_a_slower_result_never_pays_back():
    paid = pay_back(BOOKS, result(1000.0, 800.0), gpus=1)
    assert paid.saved_gpu_s_per_100_steps < 0.0
    assert paid.steps_to_pay_back is None


@pytest.mark.parametrize(
    ("best", "noise_frac"), [(1050.0, 0.05), (1051.0, None), (1000.0, None), (900.0, None)]
)
def test_a_gain_within_the_noise_saves_nothing(best, noise_frac):
    paid = pay_back(BOOKS, result(1000.0, best), gpus=8, least_gain_frac=0.05)
    assert paid.noise_frac == noise_frac
    assert (paid.steps_to_pay_back is not None) is (best > 1050.0)


@pytest.mark.parametrize("results", [{}, result(None, 5.0), result(5.0, None), result(1.0, 2.0, step_s=None)])
def test_without_figures_there_is_nothing_to_say(results):
    assert pay_back(BOOKS, results, gpus=1) is None


def test_warm_starts_save_what_cold_ones_of_this_job_take():
    starts = [
        Start(start_s=100.0, is_warm=False, devices=8),
        Start(start_s=120.0, is_warm=False, devices=8),
        Start(start_s=2.0, is_warm=True, devices=8),
        Start(start_s=150.0, is_warm=True, devices=8),  # it had to build a new engine
    ]
    assert ledger([], starts).saved_by_warmth_gpu_s == 8 * (110.0 - 2.0)
    assert ledger([], starts[2:]).saved_by_warmth_gpu_s == 0.0
