"""The first job file: accepted as it is, and nobody's work overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.job.loading import load_job
from tests.cli.builders import answered, listing, printed, refused

FILES = ("--model", "model", "--train", "train.parquet", "--val", "val.parquet")


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_a_first_job_loads_and_plans(capsys: Any, folder: Path, algorithm: str, device: str) -> None:
    chosen = ("--algorithm", algorithm, "--device", device, "--gpus", "2", "--reward", "reward.py")
    answer = answered(capsys, "init", "first", *FILES, *chosen)
    assert answer == {"job_file": "jobs/first.yaml", "gpus": 2}
    job = load_job(folder / "jobs" / "first.yaml")
    assert (job.name, job.resources.device, job.resources.gpus_per_trial) == ("first", device, 2)
    assert job.verl.overrides["data.train_files"] == str(folder / "train.parquet")
    plan = answered(capsys, "run", "jobs/first.yaml", "--dry-run")
    assert [stage["stage"] for stage in plan["stages"]] == ["survive", "speed", "quality"]


def test_several_files_and_another_place(capsys: Any, folder: Path) -> None:
    text = printed(
        capsys, "init", "first", *FILES, "--train", "more.parquet", "--device", "cpu", "-o", "here/job.yaml"
    )
    assert text.startswith("wrote here/job.yaml for CPU\n")
    assert "autotune run here/job.yaml --dry-run" in text
    job = load_job(folder / "here" / "job.yaml")
    assert job.verl.overrides["data.train_files"] == [str(folder / "train.parquet"), "more.parquet"]
    assert job.resources.gpus_per_trial == 1


def test_an_existing_file_stays(capsys: Any, folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "first.yaml").write_text("mine")
    (fault,) = refused(capsys, "init", "first", *FILES)
    assert fault["where"] == "jobs/first.yaml"
    assert "--force" in fault["next_step"]
    assert (folder / "jobs" / "first.yaml").read_text() == "mine"
    answered(capsys, "init", "first", *FILES, "--force")
    assert load_job(folder / "jobs" / "first.yaml").name == "first"


@pytest.mark.parametrize("name", ["my job", "a/b", "", "a" * 65, "../up", "a\n"])
def test_names_that_no_job_may_have(capsys: Any, folder: Path, name: str) -> None:
    before = listing(folder)
    (fault,) = refused(capsys, "init", name, *FILES)
    assert fault["where"] == "NAME"
    assert listing(folder) == before


def test_bad_choices_are_told_together(capsys: Any, folder: Path) -> None:
    before = listing(folder)
    faults = refused(capsys, "init", "first", *FILES, "--algorithm", "dpo", "--device", "tpu")
    assert [(fault["where"], fault["allowed"]) for fault in faults] == [
        ("--algorithm", "grpo or ppo"),
        ("--device", "gpu or cpu"),
    ]
    assert listing(folder) == before


def test_an_unwritable_place(capsys: Any, folder: Path) -> None:
    (fault,) = refused(capsys, "init", "first", *FILES, "-o", "reward.py/job.yaml")
    assert fault["key"] == "--output"
