"""A database is one job's, of one form, of a schema that this autotune knows."""

import sqlite3
from contextlib import closing

import pytest

from autotune.errors import StoreError
from autotune.records import Candidate, StageName
from autotune.store.store import Store
from autotune.store.tables import SCHEMA_VERSION

JOB = {"job_name": "tiny", "job_hash": "0123456789abcdef", "version": "0.1.0"}


def path_of(url):
    return url.removeprefix("sqlite:///")


def open_fault(url, **changed):
    with pytest.raises(StoreError) as caught:
        Store.open(url, **{**JOB, **changed})
    (fault,) = caught.value.faults
    return fault


@pytest.fixture
def made(url, clock):
    with Store.open(url, **JOB) as store:
        store.add_trial(StageName.SURVIVE, 0, Candidate(params={}, origin="sampler"), {}, clock.utc_now())
    return url


def test_the_same_job_finds_its_trials_again(made):
    with Store.open(made, **{**JOB, "version": "0.1.5"}) as store:
        assert len(store.trials()) == 1


def test_another_job_is_refused_by_name(made):
    fault = open_fault(made, job_name="other", job_hash="ffff")
    assert fault.where == path_of(made)
    assert "another job: tiny (0123456789abcdef)" in fault.found
    assert fault.allowed == "other"
    assert "storage.results" in fault.next_step


def test_a_changed_job_is_refused_with_what_to_do(made):
    fault = open_fault(made, job_hash="ffff")
    assert "0123456789abcdef" in fault.found
    assert "another name" in fault.next_step


@pytest.mark.parametrize(
    ("schema_version", "says", "next_step"),
    [
        (SCHEMA_VERSION + 1, "made by a newer autotune", "upgrade"),
        (SCHEMA_VERSION - 1, "made by an older autotune", "finish it with"),
    ],
)
@pytest.mark.parametrize("open_store", [lambda url: Store.open(url, **JOB), Store.read])
def test_another_schema_is_refused(made, schema_version, says, next_step, open_store):
    with closing(sqlite3.connect(path_of(made))) as connection, connection:
        connection.execute("UPDATE autotune_job SET schema_version = ?", (schema_version,))
        # A newer schema has other columns; only these two are promised.
        connection.execute("ALTER TABLE autotune_job DROP COLUMN wall_s")
    with pytest.raises(StoreError, match=says) as caught:
        open_store(made)
    assert next_step in caught.value.faults[0].next_step


def test_a_refusal_writes_nothing(made):
    def tables():
        with closing(sqlite3.connect(path_of(made))) as connection:
            return sorted(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())

    with closing(sqlite3.connect(path_of(made))) as connection, connection:
        connection.execute("DROP TABLE autotune_stage_results")
    before = tables()
    open_fault(made, job_name="other")
    assert tables() == before


def test_reading_names_the_job_and_needs_its_tables(made, tmp_path):
    with Store.read(made) as store:
        assert store.job_name == "tiny"
        assert [trial.number for trial in store.trials()] == [0]
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as connection, connection:
        connection.execute("CREATE TABLE songs (id INTEGER)")
    with pytest.raises(StoreError, match="without autotune's tables"):
        Store.read(f"sqlite:///{tmp_path}/foreign.db")


def test_reading_creates_nothing(tmp_path):
    with pytest.raises(StoreError, match="autotune run"):
        Store.read(f"sqlite:///{tmp_path}/results/none.db")
    assert list(tmp_path.iterdir()) == []
