"""The replay behind `make bench-honesty`: it draws what was recorded, and decides by the product's own code."""

import statistics

import pytest

from autotune.job.model import FinishSection
from benchmarks.honesty.replay import Noise, Replay, between_runs, recorded_runs
from benchmarks.honesty.study import run_study

SECTION = FinishSection(steps=10, repeats=6)


def study(gain, *, between=0.0, seed=1):
    replay = Replay(recorded_runs(), Noise("test", between), seed)
    return run_study(replay, gain, trials=16, steps=8, section=SECTION)


def test_real_runs_stand_behind_it():
    runs = recorded_runs()
    sigma, df = between_runs(runs)
    assert len(runs) >= 2
    assert df >= 1
    assert 0.0 < sigma < 0.5
    assert all(
        statistics.median(s.tokens / s.step_s for s in run.steady) == pytest.approx(1000.0) for run in runs
    )


def test_a_replayed_trial_is_made_of_recorded_steps():
    runs = recorded_runs()
    known = {step.tokens for run in runs for step in (*run.warm_up, *run.steady)}
    rows = Replay(runs, Noise("test", 0.0), seed=3).rows(8, 2.0)
    assert [row.step for row in rows] == list(range(1, 9))
    assert {row.values["perf/total_num_tokens"] for row in rows} <= known


def test_a_large_planted_gain_is_found_and_told_as_large_as_it_is():
    found = [study(0.5, seed=seed) for seed in range(8)]
    assert all(one.claims and one.true_gain == 0.5 for one in found)
    assert statistics.fmean(one.claimed_gain for one in found) == pytest.approx(0.5, abs=0.05)


def test_the_search_alone_would_call_noise_a_gain():
    found = [study(0.0, between=0.1, seed=seed) for seed in range(16)]
    assert statistics.fmean(one.searched_gain for one in found) > 0.05
    assert sum(one.claims for one in found) <= 2
