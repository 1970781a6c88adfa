from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from autotune.errors import StoreError
from autotune.job.paths import JobPaths, write_atomic, write_fault
from autotune.records import StageName


def test_every_file_has_its_place():
    paths = JobPaths(Path("results"), "tiny")
    attempt = paths.attempt(StageName.SPEED, 3, 0)
    assert paths.database == Path("results/tiny.db")
    assert paths.lock == Path("results/tiny.lock")
    assert paths.exports == Path("results/tiny/exports")
    assert paths.config(StageName.SPEED, 3) == Path("results/tiny/configs/speed-3.yaml")
    assert attempt.root == Path("results/tiny/attempts/speed-3-0")
    assert [
        path.name
        for path in (
            attempt.request, attempt.running, attempt.config, attempt.console, attempt.metrics,
            attempt.phases, attempt.memory_caps, attempt.end, attempt.hydra,
        )
    ] == [
        "request.json", "running.json", "config.yaml", "console.log", "metrics.jsonl",
        "phases.jsonl", "memory_caps", "end.json", "hydra",
    ]  # fmt: skip


def test_write_atomic_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "new" / "end.json"
    write_atomic(path, "old")
    write_atomic(path, "\u00e9\n")
    assert path.read_text(encoding="utf-8") == "\u00e9\n"
    assert os.listdir(path.parent) == ["end.json"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_file_in_the_way_is_a_store_error(tmp_path):
    (tmp_path / "results").write_text("not a folder")
    with pytest.raises(StoreError) as caught:
        write_atomic(tmp_path / "results" / "job" / "end.json", "x")
    (fault,) = caught.value.faults
    assert str(tmp_path / "results") in fault.where
    assert "storage.results" in fault.next_step


def test_a_full_disk_names_the_folder():
    fault = write_fault(Path("results/tiny"), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert fault.where == "results/tiny"
    assert "space" in fault.found.lower()
    assert "free space" in fault.next_step


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "config.yaml"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \udc80")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["config.yaml"]
