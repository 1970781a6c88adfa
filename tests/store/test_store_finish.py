"""The plan before the first run, the verdict once, and databases from before there was a finish."""

import pytest
from sqlalchemy import create_engine, text

from autotune.ladder import finish
from autotune.store.store import Store
from tests.ladder.finish_builders import plan, ran_pairs, view_of

IDENTITY = {"job_name": "tiny", "job_hash": "0123456789abcdef"}


def opened(url):
    return Store.open(url, **IDENTITY, version="0.1.0")


def test_plan_then_verdict(url, clock):
    verdict = finish.verdict(view_of(*ran_pairs(3, gain=0.3)))
    with opened(url) as store:
        assert (store.finish_plan(), store.finish_verdict()) == (None, None)
        store.plan_finish(plan(), clock.utc_now())
        assert (store.finish_plan(), store.finish_verdict()) == (plan(), None)
        store.end_finish(verdict, clock.utc_now())
    with Store.read(url) as store:
        assert (store.finish_plan(), store.finish_verdict()) == (plan(), verdict)


def test_nothing_is_settled_or_told_twice(url, clock):
    verdict = finish.verdict(view_of(*ran_pairs(3, gain=0.3)))
    with opened(url) as store:
        with pytest.raises(ValueError, match="not planned"):
            store.end_finish(verdict, clock.utc_now())
        store.plan_finish(plan(), clock.utc_now())
        with pytest.raises(ValueError, match="planned already"):
            store.plan_finish(plan(), clock.utc_now())
        store.end_finish(verdict, clock.utc_now())
        with pytest.raises(ValueError, match="has its verdict"):
            store.end_finish(verdict, clock.utc_now())


def test_an_older_database_has_no_finish_until_it_is_opened_for_writing(url, clock):
    opened(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE autotune_finish"))
    engine.dispose()
    with Store.read(url) as store:
        assert (store.finish_plan(), store.finish_verdict()) == (None, None)
    with opened(url) as store:
        store.plan_finish(plan(), clock.utc_now())
        assert store.finish_plan() == plan()
