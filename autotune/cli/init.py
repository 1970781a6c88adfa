"""`autotune init`: writes a first job file from a model, data files and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.errors import Fault, InputError
from autotune.forecast.hardware import gpu_inventory
from autotune.job.paths import write_atomic
from autotune.job.starter import first_job


def init(
    name: str = typer.Argument(..., help="Name of the job; jobs/NAME.yaml is written."),
    model: str = typer.Option(..., help="Model folder or hub id."),
    train: list[str] = typer.Option(..., help="Training parquet file; may be given several times."),
    val: list[str] = typer.Option(..., help="Validation parquet file; may be given several times."),
    gpus: Optional[int] = typer.Option(None, help="GPUs of one trial; default: all of this machine."),
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
    for option, value, allowed in (
        ("--algorithm", algorithm, ("grpo", "ppo")),
        ("--device", device, ("gpu", "cpu")),
    ):
        if value not in allowed:
            raise InputError(
                Fault(where=option, found=value, allowed=" or ".join(allowed), next_step="choose one")
            )
    target = output or Path("jobs") / f"{name}.yaml"
    if target.exists() and not force:
        raise InputError(
            Fault(
                where=str(target),
                found="a file that exists",
                next_step="choose --output, or --force to replace it",
            )
        )
    count = gpus if gpus is not None else max(len(gpu_inventory()), 1)
    write_atomic(
        target, first_job(name, model, train, val, count, reward, algorithm=algorithm, device=device)
    )
    if as_json:
        print_json({"job_file": str(target), "gpus": count})
        return
    typer.echo(f"wrote {target} for {count} {device.upper()}{'s' if count > 1 else ''}")
    typer.echo(f"next: read it, then `autotune run {target} --dry-run`")
