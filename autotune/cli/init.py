"""`autotune init`: writes a first job file, from a launch script or from model, data files and GPUs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.errors import Fault, InputError
from autotune.forecast.hardware import gpu_inventory
from autotune.forecast.imported_job import ImportedJob
from autotune.forecast.profiling import filled, import_job, read_launch
from autotune.job.paths import write_atomic
from autotune.job.section import JOB_NAME
from autotune.job.starter import first_job
from autotune.records import Value
from autotune.verl_config.launch_script.reading import LaunchScript


def init(
    name: Optional[str] = typer.Argument(
        None, help="Name of the job; jobs/NAME.yaml is written. With --from: default as the file."
    ),
    source: Optional[Path] = typer.Option(
        None, "--from", help="Launch script (shell) or verl YAML to start from; it is read, never run."
    ),
    model: Optional[str] = typer.Option(None, help="Model folder or hub id."),
    train: Optional[list[str]] = typer.Option(
        None, help="Training parquet file; may be given several times."
    ),
    val: Optional[list[str]] = typer.Option(
        None, help="Validation parquet file; may be given several times."
    ),
    gpus: Optional[int] = typer.Option(
        None, min=1, help="GPUs of one trial, default: all of this machine; on CPU ranks, default: 1."
    ),
    reward: Optional[str] = typer.Option(
        None, help="Python file with compute_score; default: verl's own rewards."
    ),
    algorithm: str = typer.Option("grpo", help="grpo or ppo; with --from, the script's own."),
    device: str = typer.Option("gpu", help="gpu or cpu."),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="Where to write instead."),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Write a first job file, ready to be read through and run."""
    if source is not None:
        given = _given(model, train, val, gpus, reward)
        job_name = name or re.sub(r"[^A-Za-z0-9._-]+", "-", source.stem).strip("-._")[:64]
        _check(job_name, algorithm, device)
        target = _target(job_name, output, force)
        launch = filled(read_launch(source), given)
        job = import_job(job_name, launch, source, device)
        write_atomic(target, job.text, key="--output")
        _tell_import(target, launch, job, as_json)
        return
    _require(name, model, train, val)
    assert name is not None
    assert model is not None
    assert train
    assert val
    _check(name, algorithm, device)
    target = _target(name, output, force)
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


def _given(
    model: str | None, train: list[str] | None, val: list[str] | None, gpus: int | None, reward: str | None
) -> dict[str, Value]:
    """What the command line says instead of the script."""
    options: dict[str, Value] = {
        "actor_rollout_ref.model.path": model,
        "data.train_files": _files(train),
        "data.val_files": _files(val),
        "trainer.n_gpus_per_node": gpus,
        "reward.custom_reward_function.path": reward,
    }
    return {key: value for key, value in options.items() if value is not None}


def _tell_import(target: Path, launch: LaunchScript, job: ImportedJob, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "job_file": str(target),
                "gpus": job.gpus,
                "algorithm": job.algorithm,
                "entry": launch.entry,
                "config_name": launch.config_name,
                "overrides": launch.overrides,
                "unresolved": [
                    {"line": one.line, "key": one.key, "text": one.text, "why": one.why}
                    for one in launch.unresolved
                ],
                "withheld": list(job.withheld),
                "notes": list(job.notes),
            }
        )
        return
    typer.echo(f"wrote {target}: {len(launch.overrides)} overrides, {job.algorithm} on {job.gpus} GPU(s)")
    for note in job.notes:
        typer.echo(note)
    if launch.unresolved:
        typer.echo(f"not known without running the script ({len(launch.unresolved)}), commented in the job:")
        for one in launch.unresolved:
            typer.echo(f"  line {one.line}: {one.text}")
            typer.echo(f"    {one.why}")
    typer.echo(f"next: read it, then `autotune run {target} --dry-run`")


def _require(name: str | None, model: str | None, train: list[str] | None, val: list[str] | None) -> None:
    """Refuses a command line that names neither a script nor all that a job needs."""
    missing = [
        option
        for option, value in (("NAME", name), ("--model", model), ("--train", train), ("--val", val))
        if not value
    ]
    if missing:
        next_step = "give them, or start from a launch script with --from run.sh"
        raise InputError([Fault(where=option, found="nothing", next_step=next_step) for option in missing])


def _target(name: str, output: Path | None, force: bool) -> Path:
    target = output or Path("jobs") / f"{name}.yaml"
    if target.exists() and not force:
        next_step = "choose --output, or --force to replace it"
        raise InputError(Fault(where=str(target), found="a file that exists", next_step=next_step))
    return target


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


def _files(files: list[str] | None) -> Value:
    if not files:
        return None
    return files[0] if len(files) == 1 else [*files]
