"""What SQLite refuses reaches the user as one message with a next step."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import event, text

from autotune.errors import StoreError
from autotune.records import Candidate, StageName
from autotune.store.database import Database
from autotune.store.store import Store

JOB = {"job_name": "tiny", "job_hash": "0123456789abcdef", "version": "0.1.0"}
CANDIDATE = Candidate(params={"note": "x" * 4096}, origin="sampler")


def only_fault(error):
    (fault,) = error.value.faults
    return fault


def test_connections_are_set_for_one_writer_and_many_readers(url):
    database = Database(url)
    with database.reading() as session:
        pragmas = {
            name: session.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout")
        }
    database.close()
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 60_000}


def test_a_transaction_is_written_whole_or_not_at_all(url):
    database = Database(url)
    with database.writing() as session:
        session.execute(text("CREATE TABLE one (id INTEGER)"))
    with pytest.raises(RuntimeError), database.writing() as session:  # noqa: PT012
        session.execute(text("CREATE TABLE two (id INTEGER)"))
        session.execute(text("INSERT INTO one VALUES (1)"))
        raise RuntimeError
    with database.reading() as session:
        assert session.execute(text("SELECT name FROM sqlite_master")).scalars().all() == ["one"]
        assert session.execute(text("SELECT count(*) FROM one")).scalar() == 0
    database.close()


def test_a_full_disk_keeps_what_was_written_before(url, clock):
    with Store.open(url, **JOB) as store:
        pages_left = 20
        store._database.close()

        @event.listens_for(store._database.engine, "connect")
        def limit_pages(connection, _record):
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages + pages_left}")

        written = 0
        with pytest.raises(StoreError, match="full disk") as caught:  # noqa: PT012
            while written < 1000:
                store.add_trial(StageName.SURVIVE, written, CANDIDATE, {}, clock.utc_now())
                written += 1
        assert "free space" in only_fault(caught).next_step
        assert len(store.trials()) == written > 0


def test_a_writer_elsewhere_is_named_after_the_time_out(url):
    database = Database(url, busy_timeout_s=0.05)
    with database.writing() as session:
        session.execute(text("CREATE TABLE one (id INTEGER)"))
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"), database.writing() as session:
            session.execute(text("SELECT count(*) FROM one"))  # a writer locks before it reads
        with database.reading() as session:  # readers are never held up
            assert session.execute(text("SELECT count(*) FROM one")).scalar() == 0
    database.close()


def test_writing_through_a_reader_is_refused(url, clock):
    Store.open(url, **JOB).close()
    with Store.read(url) as store, pytest.raises(StoreError, match="read-only"):
        store.add_trial(StageName.SURVIVE, 0, CANDIDATE, {}, clock.utc_now())


@pytest.mark.parametrize("open_store", [lambda url: Store.open(url, **JOB), Store.read])
def test_a_file_that_is_no_database_stays_as_it_is(tmp_path, open_store):
    path = tmp_path / "tiny.db"
    path.write_text("name: tiny\n" * 200)
    with pytest.raises(StoreError, match="not a database") as caught:
        open_store(f"sqlite:///{path}")
    assert only_fault(caught).where == str(path)
    assert path.read_text() == "name: tiny\n" * 200


def test_a_damaged_database_is_named(url, clock, tmp_path):
    with Store.open(url, **JOB) as store:
        for number in range(30):
            store.add_trial(StageName.SURVIVE, number, CANDIDATE, {}, clock.utc_now())
    path = tmp_path / "tiny.db"
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged database"), Store.read(url) as store:
        store.trials()


def test_a_results_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "results").write_text("a file stands here")
    with pytest.raises(StoreError) as caught:
        Store.open(f"sqlite:///{tmp_path}/results/tiny/tiny.db", **JOB)
    assert only_fault(caught).key == "storage.results"


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "tiny.db").mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(f"sqlite:///{tmp_path}/tiny.db", **JOB)


@pytest.mark.parametrize(
    ("url", "says"),
    [("results/tiny.db", "SQLAlchemy URL"), ("nosuch://host/db", "driver"), ("oracle://host/db", "driver")],
)
def test_an_unusable_url(url, says):
    with pytest.raises(StoreError, match=says):
        Store.open(url, **JOB)


def test_odd_characters_in_the_path(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/100% of #2/tiny job.db"
    with Store.open(url, **JOB) as store:
        store.add_trial(StageName.SURVIVE, 0, CANDIDATE, {}, clock.utc_now())
    with Store.read(url) as store:
        assert len(store.trials()) == 1
