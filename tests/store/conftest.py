"""A store in a temporary folder and the values that the tests put into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.clock import ManualClock
from autotune.store.store import Store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tiny.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url, job_name="tiny", job_hash="0123456789abcdef", version="0.1.0") as store:
        yield store
