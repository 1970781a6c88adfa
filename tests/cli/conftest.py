"""A working directory with a sound job, and one with a job that has been climbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.builders import fill, job_sections, write_inputs, write_job
from tests.controller.conftest import optuna_tables, rig

__all__ = ["optuna_tables", "rig"]  # whole ladders over a synthetic verl


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with everything that the job names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture
def job_file(folder: Path) -> Callable[..., str]:
    """Writes the sound job after `change(sections)` and returns the file's name."""

    def write(change: Callable[[dict[str, Any]], object] = lambda sections: None) -> str:
        sections = job_sections()
        change(sections)
        write_job(folder / "job.yaml", sections)
        return "job.yaml"

    return write


@pytest.fixture(scope="module")
def climbed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory where `played.yaml` was climbed."""
    folder = tmp_path_factory.mktemp("climbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
        fill(write_job(folder / "played.yaml", job_sections()))
    return folder


@pytest.fixture
def climbed(climbed_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working directory."""
    monkeypatch.chdir(climbed_folder)
    return climbed_folder
