"""The shipped tiny job as a value that a benchmark changes, with its model and data in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from autotune.verl_plugin.tiny_job import make_tiny_job

ROOT = Path(__file__).resolve().parents[1]


def tiny_job(folder: Path, name: str) -> dict[str, Any]:
    """The job file's content under another name, results and data in `folder`; makes the data where it is missing."""
    make_tiny_job(folder / "tiny")
    job: dict[str, Any] = yaml.safe_load((ROOT / "jobs" / "tiny-cpu.yaml").read_text(encoding="utf-8"))
    own = job["verl"]["overrides"]
    for key, value in own.items():
        if isinstance(value, str) and value.startswith(".tiny/"):
            own[key] = str(folder / "tiny" / value.removeprefix(".tiny/"))
    job["name"] = name
    job["storage"] = {"results": str(folder / "results")}
    return job


def written(folder: Path, job: dict[str, Any]) -> Path:
    """The job as a file of its name."""
    path = folder / f"{job['name']}.yaml"
    path.write_text(yaml.safe_dump(job), encoding="utf-8")
    return path
