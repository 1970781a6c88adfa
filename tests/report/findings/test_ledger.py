"""What it cost and when it is earned back."""

from collections import Counter

import pytest


def test_every_trial_is_booked_once(studied):
    entries = studied.ledger.entries
    assert sum(entry.trials for entry in entries) == len(studied.trials)
    assert studied.ledger.cost_gpu_h == pytest.approx(len(studied.trials) * 2400 / 3600)
    assert sum(entry.gpu_s for entry in entries) / 3600 == pytest.approx(studied.ledger.cost_gpu_h)
    booked = Counter()
    for entry in entries:
        booked[entry.stage] += entry.trials
    assert booked == Counter(trial.stage for trial in studied.trials)


def test_the_pay_back_is_at_equal_tokens(studied):
    pay, ledger = studied.ledger.pay_back, studied.ledger
    survivor_step_s = studied.step_times[0].step_s
    saved_h = survivor_step_s * 8 * (1 - 1 / pay.gain) / 3600
    assert pay.gain == pytest.approx(studied.rungs[1].gain)
    assert pay.saved_gpu_h_per_100_steps == pytest.approx(100 * saved_h, rel=0.05)
    assert pay.steps * pay.saved_gpu_h_per_100_steps / 100 == pytest.approx(ledger.cost_gpu_h)
