"""`autotune init`: writes a first job file from a model, data files and GPUs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.errors import Fault, InputError
from autotune.forecast.hardware import gpu_inventory
from autotune.job.model import JOB_NAME
from autotune.job.paths import write_atomic
from autotune.job.starter import first_job


def init(
    name: str = typer.Argument(..., help="Name of the job; jobs/NAME.yaml is written."),
    model: str = typer.Option(..., help="Model folder or hub id."),
    train: list[str] = typer.Option(..., help="Training parquet file; may be given several times."),
    val: list[str] = typer.Option(..., help="Validation parquet file; may be given several times."),
    gpus: Optional[int] = typer.Option(
        None, min=1, help="GPUs of one trial, default: all of this machine; on CPU ranks, default: 1."
    ),
    reward: Optional[str] = typer.Option(
        None, help="Python file with compute_score; default: verl's own rewards."
    ),
    algorithm: str = typer.Option("grpo", help="grpo or ppo."),
    device: str = typer.Option("gpu", help="gpu or cpu."),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="Where to write instead."),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Write a first job file, ready to be read through and run."""
    _check(name, algorithm, device)
    target = output or Path("jobs") / f"{name}.yaml"
    if target.exists() and not force:
        raise InputError(
            Fault(
                where=str(target),
                found="a file that exists",
                next_step="choose --output, or --force to replace it",
            )
        )
    count = gpus or (len(gpu_inventory()) if device == "gpu" else 1) or 1
    text = first_job(
        name, model, _one_or_all(train), _one_or_all(val), count, reward, algorithm=algorithm, device=device
    )
    write_atomic(target, text, key="--output")
    if as_json:
        print_json({"job_file": str(target), "gpus": count})
        return
    devices = f"{count} GPU{'s' if count > 1 else ''}" if device == "gpu" else "CPU"
    typer.echo(f"wrote {target} for {devices}")
    typer.echo(f"next: read it, then `autotune run {target} --dry-run`")


def _check(name: str, algorithm: str, device: str) -> None:
    """Refuses what the job file would be refused for, all at once."""
    faults = [
        Fault(where=option, found=value, allowed=" or ".join(allowed), next_step="choose one")
        for option, value, allowed in (
            ("--algorithm", algorithm, ("grpo", "ppo")),
            ("--device", device, ("gpu", "cpu")),
        )
        if value not in allowed
    ]
    if not re.fullmatch(JOB_NAME, name):
        allowed = "1 to 64 letters, digits, `.`, `_` and `-`, a letter or digit first"
        faults.append(
            Fault(where="NAME", found=name or "nothing", allowed=allowed, next_step="choose another name")
        )
    if faults:
        raise InputError(faults)


def _one_or_all(files: list[str]) -> str | list[str]:
    return files[0] if len(files) == 1 else files
