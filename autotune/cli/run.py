"""`autotune run JOB`: climbs the ladder, or says what it would do."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import FrameType
from typing import Any, Optional

import typer

from autotune.cli.delivery import delivering
from autotune.cli.live import watching
from autotune.cli.printing import print_results
from autotune.controller.assembly import check_configuration, open_preparer, open_services
from autotune.controller.ladder_run import run_ladder
from autotune.controller.loop import Controller
from autotune.controller.notices import end_is_told
from autotune.errors import Fault, JobFileError
from autotune.export.provenance import gather_provenance
from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.ladder.finish_words import verdict_json
from autotune.ladder.plan import first_candidates
from autotune.records import StageName, Value


def run(
    job_file: Path = typer.Argument(..., metavar="JOB", help="Job file."),
    stage: Optional[str] = typer.Option(None, help="One stage only: survive, speed, quality or finish."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Resolve and plan everything, launch nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    quiet: bool = typer.Option(False, "--quiet", help="No progress."),
) -> None:
    """Climb the ladder with short real verl trials; the same command resumes."""
    job = load_job(job_file)
    stages = _stages(job, job_file, stage)
    if dry_run:
        _print_plan(job, stages, as_json=as_json)
        return
    with (
        watching(quiet=quiet or as_json) as watcher,
        delivering(job, watcher.say) as messenger,
        open_services(job, stages, watcher, messenger) as (services, controller),
        end_is_told(services),
    ):
        _stop_on_signals(controller)
        services.store.set_provenance(_provenance(job))
        results = run_ladder(services, controller, stages)
        verdict = services.store.finish_verdict()
        summary = {
            "job": job.name,
            "database": services.store.url,
            "device_s": services.store.device_s(),
            "wall_s": services.store.wall_s(),
            "finish": None if verdict is None else verdict_json(verdict),
        }
    print_results(summary, list(results.values()), job_file, as_json=as_json)


def _stages(job: Job, job_file: Path, stage: str | None) -> tuple[StageName, ...]:
    names = (*job.stage_names(), StageName.FINISH)
    if stage is None:
        return names if job.finish.enabled else names[:-1]
    chosen = tuple(name for name in names if name.value == stage)
    if not chosen:
        raise JobFileError(
            Fault(
                where="--stage",
                found=stage,
                allowed=", ".join(name.value for name in names),
                next_step=f"name one of them, or add the stage to {job_file}",
            )
        )
    return chosen


def _print_plan(job: Job, stages: tuple[StageName, ...], *, as_json: bool) -> None:
    plan: list[dict[str, Any]] = []
    with open_preparer(job) as preparer:
        for name, space in check_configuration(job, stages, preparer).items():
            section = job.stage(name)
            assert section is not None
            candidates = first_candidates(name, section, space)
            plan.append(
                {
                    "stage": name.value,
                    "trials_planned": section.trials,
                    "steps": section.steps,
                    "first_candidates": [{"origin": c.origin, "params": dict(c.params)} for c in candidates],
                }
            )
    finish = job.finish if StageName.FINISH in stages else None
    if as_json:
        answer = {"job": job.name, "stages": plan, "finish": finish and {"pairs_at_most": finish.repeats}}
        typer.echo(json.dumps(answer, indent=2))
        return
    for row in plan:
        typer.echo(
            f"{row['stage']}: up to {row['trials_planned']} trials of {row['steps']} steps, starting with"
        )
        for candidate in row["first_candidates"]:
            typer.echo(f"  {candidate['origin']}")
            for key, value in candidate["params"].items():
                typer.echo(f"    {key}: {value}")
    if finish is not None:
        typer.echo(f"finish: winner and user configuration again, up to {finish.repeats} cold runs of each")


def _provenance(job: Job) -> dict[str, Value]:
    """On what the results rest, and the job itself, so that later commands need no job file."""
    seeds = {
        name.value: section.seed for name in job.stage_names() if (section := job.stage(name)) is not None
    }
    return {**gather_provenance(seeds, Path.cwd()).to_json(), "job": job.model_dump_json()}


def _stop_on_signals(controller: Controller) -> None:
    """The first Ctrl-C or SIGTERM ends the trials; a second Ctrl-C gives up waiting for that."""

    def ask(number: int, _frame: FrameType | None) -> None:
        controller.stop(signal.Signals(number).name)
        signal.signal(number, signal.default_int_handler)

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
