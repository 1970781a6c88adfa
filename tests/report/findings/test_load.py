"""What the ranks had to do, of the two runs that a report draws."""

from pathlib import Path

import pytest

from autotune.job.paths import AttemptPaths
from autotune.records import StageName
from autotune.report.findings.load import MOST_LENGTHS, MOST_STEPS, load_finding, read_loads
from autotune.report.findings.stages import climbed_stages
from autotune.report.status import read_status
from autotune.store.rank_load import read_rank_load
from tests.report.loads import RANKS, write_load
from tests.report.study import StudyBuilder, fill_study, study_job, survive


@pytest.fixture
def load(tmp_path):
    def made(**options):
        write_load(tmp_path, **options)
        return load_finding("survivor", "speed/0", read_rank_load(AttemptPaths(tmp_path)))

    return made


def found(store, job):
    return [(one.name, one.trial) for one in read_loads(store, climbed_stages(read_status(store, job), job))]


def in_folder(store, stage, number):
    """The folder of a trial's last attempt."""
    return Path(store.attempts(store.trial(stage, number).id)[-1].folder)


def test_every_step_is_told_over_its_ranks(load):
    one = load(steps=3, micro_batches=8)
    assert (one.ranks, one.steps) == (RANKS, 3)
    assert one.tokens.steps == (1, 2, 3)
    for low, mean, high in zip(one.tokens.smallest, one.tokens.mean, one.tokens.largest, strict=True):
        assert 9900 <= low <= mean <= high <= 10100
    assert one.tokens.overall.count == 3 * RANKS
    assert (set(one.micro_batches.smallest), set(one.micro_batches.largest)) == ({8}, {9})
    assert one.samples.mean == (32.0, 32.0, 32.0)
    assert one.padding_frac == pytest.approx(0.5)
    assert sum(bar.count for bar in one.histogram) == 3 * RANKS


def test_balancing_evens_what_arrived_uneven(load):
    balance = load(steps=5).balance
    assert all(after < before for before, after in zip(balance.before, balance.after, strict=True))
    assert balance.mean_after == pytest.approx(sum(balance.after) / 5)
    assert 1.0 <= balance.mean_after < 1.02 < balance.mean_before


def test_one_rank_has_no_balance(load):
    one = load(steps=2, ranks=1)
    assert (one.ranks, one.balance) == (1, None)
    assert one.tokens.smallest == one.tokens.largest


def test_a_long_run_is_thinned(load):
    one = load(steps=3 * MOST_STEPS)
    assert len(one.tokens.steps) == len(one.balance.steps) == MOST_STEPS
    assert (one.tokens.steps[0], one.tokens.steps[-1]) == (1, 3 * MOST_STEPS)
    assert one.tokens.overall.count == 3 * MOST_STEPS * RANKS
    assert len(one.lengths) <= MOST_LENGTHS


def test_survivor_and_fastest_are_read_where_they_have_a_file(store, clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the made-up attempts have folders relative to it
    job = study_job(tmp_path)
    fill_study(store, clock, job, sampled=0, steps=4)
    assert found(store, job) == []
    write_load(in_folder(store, StageName.SPEED, 1))
    assert found(store, job) == [("survivor", "speed/1")]
    write_load(in_folder(store, StageName.SPEED, 3), micro_batches=4)
    assert found(store, job) == [("survivor", "speed/1"), ("fastest", "speed/3")]


def test_before_stage_speed_it_is_the_survivor_of_survive(store, clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = study_job(tmp_path)
    survive(StudyBuilder(store, clock))
    write_load(in_folder(store, StageName.SURVIVE, 1))
    assert found(store, job) == [("survivor", "survive/1")]
