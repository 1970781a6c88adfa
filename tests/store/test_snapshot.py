"""A copy taken in the middle of the writing is a whole database."""

import sqlite3
from contextlib import closing

import pytest

from autotune.errors import StoreError
from autotune.records import Candidate, StageName
from autotune.store.reader import StoreReader
from autotune.store.snapshot import snapshot


def add_trial(store, clock, number):
    store.add_trial(StageName.SURVIVE, number, Candidate(params={}, origin="sampler"), {}, clock.utc_now())


def test_a_copy_is_taken_while_a_writer_is_at_it(store, clock, tmp_path):
    target = tmp_path / "view" / "tiny.db"
    add_trial(store, clock, 0)
    with store._database.writing() as session:  # an open transaction, not yet written
        session.connection().exec_driver_sql("UPDATE autotune_trials SET number = 99")
        snapshot(store.url, target)
    add_trial(store, clock, 1)
    with StoreReader.read(f"sqlite:///{target}") as copy:
        assert [trial.number for trial in copy.trials()] == [0]
    assert [path.name for path in target.parent.iterdir()] == ["tiny.db"]


def test_a_later_copy_replaces_the_earlier(store, clock, tmp_path):
    target = tmp_path / "copy.db"
    for number in range(3):
        add_trial(store, clock, number)
        snapshot(store.url, target)
    with closing(sqlite3.connect(f"file:{target}?mode=ro&immutable=1", uri=True)) as copy:
        assert copy.execute("SELECT count(*) FROM autotune_trials").fetchone() == (3,)
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("url", ["sqlite:///{folder}/none.db", "mysql+pymysql://host/db"])
def test_nothing_to_copy(tmp_path, url):
    with pytest.raises(StoreError):
        snapshot(url.format(folder=tmp_path), tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written(store, tmp_path):
    (tmp_path / "view").write_text("a file stands here")
    with pytest.raises(StoreError, match="view"):
        snapshot(store.url, tmp_path / "view" / "copy.db")
