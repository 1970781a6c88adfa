"""The books as people and programs read them."""

import json
from collections import Counter

import pytest

from autotune.judge.ledger import Ledger, LedgerEntry, PayBack
from autotune.records import StageName
from autotune.report.ledger import ledger_json, ledger_lines, pay_back_sentence

BOOKS = Ledger(
    entries=(
        LedgerEntry(stage=StageName.SURVIVE, outcome="failed", trials=2, gpu_s=130.0),
        LedgerEntry(stage=StageName.SPEED, outcome="failed", trials=1, gpu_s=50.0),
        LedgerEntry(stage=StageName.SPEED, outcome="ended_early", trials=3, gpu_s=90.0),
    ),
    saved_by_early_end_gpu_s=45.0,
    saved_by_rejection_gpu_s=0.0,
)
PAID = PayBack(cost_gpu_s=1872.0, saved_gpu_s_per_100_steps=288.0, steps_to_pay_back=650.0)


def test_lines_for_people():
    lines = [line.plain for line in ledger_lines(BOOKS, PAID)]
    assert lines == [
        "GPU time by outcome: failed 3 min 00 s, ended_early 1 min 30 s",
        "GPU time saved: 45 s by ending trials early",
        "tuning cost 0.52 GPU hours, saves 0.08 per 100 steps: paid back after 650 steps",
    ]


def test_nothing_is_said_before_the_first_trial():
    empty = Ledger(entries=(), saved_by_early_end_gpu_s=0.0, saved_by_rejection_gpu_s=0.0)
    assert ledger_lines(empty, None) == []


def test_a_result_that_saves_nothing_says_so():
    slower = PayBack(cost_gpu_s=3600.0, saved_gpu_s_per_100_steps=-5.0, steps_to_pay_back=None)
    assert pay_back_sentence(slower) == "tuning cost 1 GPU hours and saves nothing in a step"


def test_a_gain_that_may_be_noise_saves_nothing():
    noise = PayBack(cost_gpu_s=3600.0, saved_gpu_s_per_100_steps=0.0, steps_to_pay_back=None, noise_frac=0.04)
    assert pay_back_sentence(noise) == (
        "tuning cost 1 GPU hours; its gain is within the 4 % that runs of one configuration differ by, "
        "so nothing is counted as saved"
    )


@pytest.mark.parametrize("paid", [PAID, None])
def test_json_has_stable_fields(paid):
    answer = json.loads(json.dumps(ledger_json(BOOKS, paid)))
    assert answer["gpu_s"] == 270.0
    assert answer["entries"][2] == {"stage": "speed", "outcome": "ended_early", "trials": 3, "gpu_s": 90.0}
    assert answer["saved_gpu_s"] == {"early_end": 45.0, "rejection": 0.0, "warmth": 0.0}
    assert (answer["pay_back"] is None) is (paid is None)


def test_the_report_books_every_trial_once(studied):
    entries = studied.ledger.entries
    booked = Counter()
    for entry in entries:
        booked[entry.stage] += entry.trials
    assert booked == Counter(trial.stage for trial in studied.trials)
    assert studied.ledger.gpu_s == pytest.approx(len(studied.trials) * 2400)
    assert studied.wall_s == len(studied.trials) * 300


def test_the_report_pays_back_at_equal_tokens(studied):
    pay, gain = studied.pay_back, studied.rungs[1].gain
    saved_s = studied.step_times[0].step_s * 8 * (1 - 1 / gain)
    assert pay.saved_gpu_s_per_100_steps == pytest.approx(100 * saved_s, rel=0.1)
    assert pay.steps_to_pay_back * pay.saved_gpu_s_per_100_steps / 100 == pytest.approx(studied.ledger.gpu_s)
