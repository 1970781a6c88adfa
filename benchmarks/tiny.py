"""The shipped tiny job as a value that benchmarks and tests change, with its model and data in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from autotune.verl_plugin.tiny_job import make_tiny_job

ROOT = Path(__file__).resolve().parents[1]
FAST: Mapping[str, int] = {
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.rollout.max_num_seqs": 64,
}
"""What fits, and spends no time on one sample after the other."""


def tiny_job(folder: Path, name: str, *, data: Path | None = None) -> dict[str, Any]:
    """The job file's content under another name, with its results in `folder`.

    Model and data are in `data`, or in `folder`; they are made where they are missing.
    """
    data = data or folder / "tiny"
    make_tiny_job(data)
    job: dict[str, Any] = yaml.safe_load((ROOT / "jobs" / "tiny-cpu.yaml").read_text(encoding="utf-8"))
    own = job["verl"]["overrides"]
    for key, value in own.items():
        if isinstance(value, str) and value.startswith(".tiny/"):
            own[key] = str(data / value.removeprefix(".tiny/"))
    job["name"] = name
    job["storage"] = {"results": str(folder / "results")}
    return job


def written(folder: Path, job: dict[str, Any]) -> Path:
    """The job as a file of its name."""
    path = folder / f"{job['name']}.yaml"
    path.write_text(yaml.safe_dump(job), encoding="utf-8")
    return path
