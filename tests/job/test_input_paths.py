from __future__ import annotations

from pathlib import Path

import pytest

from autotune.job.input_paths import with_outer_variables  # isort:skip
from autotune.job.input_paths import absolute_if_found, with_absolute_inputs


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A working directory and a job folder, each with files."""
    work, jobs = tmp_path / "work", tmp_path / "jobs"
    for folder, names in ((work, ("both", "here")), (jobs, ("both", "beside"))):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    monkeypatch.chdir(work)
    return work, jobs


def test_working_directory_first_then_beside_the_job(folders):
    work, jobs = folders
    assert absolute_if_found("both", jobs) == str(work / "both")
    assert absolute_if_found("here", jobs) == str(work / "here")
    assert absolute_if_found("beside", jobs) == str(jobs / "beside")


@pytest.mark.parametrize(
    "text", ["Qwen/Qwen2-7B", "hdfs://a/b", "${oc.env:HOME}/x", "/abs/no", "", "later.parquet"]
)
def test_everything_else_is_left_alone(folders, text):
    assert absolute_if_found(text, folders[1]) == text


def test_home_is_spelled_out(folders):
    assert absolute_if_found("~/data/x.parquet", folders[1]) == str(Path.home() / "data" / "x.parquet")


def test_only_keys_that_name_inputs_change(folders):
    work, jobs = folders
    overrides = {
        "data.train_files": ["here", "nowhere"],
        "+data.val_files": "beside",
        "trainer.project_name": "here",
    }
    assert with_absolute_inputs(overrides, jobs) == {
        "data.train_files": [str(work / "here"), "nowhere"],
        "+data.val_files": str(jobs / "beside"),
        "trainer.project_name": "here",
    }


def test_outer_variables_are_replaced_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    given = ["$HOME/a", "${HOME}/b", "$HOMES", "${oc.env:HOME}", "$PWD/c", {"x": "['$HOME']"}, 3]
    assert with_outer_variables(given) == [
        "/home/me/a", "/home/me/b", "$HOMES", "${oc.env:HOME}", f"{tmp_path}/c", {"x": "['/home/me']"}, 3
    ]  # fmt: skip
