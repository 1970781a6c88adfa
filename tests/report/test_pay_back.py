"""A pay-back is told of a gain that the noise between runs does not explain."""

import pytest

from autotune.records import StageName
from autotune.report.status import read_status
from tests.report.study import MICRO_BATCH, START, StudyBuilder, study_job, survive

SPEED = StageName.SPEED


@pytest.fixture
def job(tmp_path):
    return study_job(tmp_path)


def told(store, clock, job, *, best, fastest=1000.0):
    """The pay-back after two runs of the survivor, 4 % apart, and one change of it."""
    study = StudyBuilder(store, clock)
    survive(study)
    for number, tokens_per_s in enumerate((1000.0, 1040.0)):
        study.complete(SPEED, number, START, "survivor, repeated", tokens_per_s=tokens_per_s)
    study.complete(SPEED, 2, {**START, MICRO_BATCH: 16}, "one change", tokens_per_s=fastest)
    study.end(SPEED, best, met=False, baseline=store.trial(SPEED, 0).verdict.figures)
    return read_status(store, job).pay_back


def test_a_clear_gain_pays_back(store, clock, job):
    paid = told(store, clock, job, best=2, fastest=1400.0)
    assert paid.steps_to_pay_back > 0.0
    assert paid.noise_frac is None


def test_a_gain_within_the_noise_does_not(store, clock, job):
    paid = told(store, clock, job, best=2, fastest=1050.0)
    assert paid.steps_to_pay_back is None
    assert paid.saved_gpu_s_per_100_steps == 0.0
    assert 0.05 < paid.noise_frac < 0.1


def test_nor_does_a_lucky_run_of_the_survivor(store, clock, job):
    paid = told(store, clock, job, best=1)
    assert paid.steps_to_pay_back is None
    assert paid.saved_gpu_s_per_100_steps == 0.0


def test_nothing_is_told_before_the_stage_has_ended(store, clock, job):
    study = StudyBuilder(store, clock)
    survive(study)
    study.complete(SPEED, 0, START, "survivor, repeated", tokens_per_s=1000.0)
    assert read_status(store, job).pay_back is None
