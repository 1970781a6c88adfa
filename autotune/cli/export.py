"""`autotune export`: the best configuration as verl runs it, with its evidence in the header."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.cli.selection import JobOption, StageOption, select, stage_named, stored_job
from autotune.controller.assembly import open_preparer
from autotune.errors import Fault, InputError, NothingFeasibleError
from autotune.export.config import ExportForm, render_export
from autotune.export.header import ExportFacts
from autotune.export.provenance import Provenance
from autotune.job.paths import write_atomic
from autotune.ladder.finish_words import is_confirmed, label
from autotune.records import StageName, StageResult
from autotune.store.store import Store
from autotune.trial.environment import device_environment, plugin_environment
from autotune.trial.preparation import whole_overrides
from autotune.verl_config.extensions import extensions_in


def export(
    output: Optional[Path] = typer.Option(
        None, "--output", "-o", help="File to write; default: best.yaml, or best.sh for a shell script."
    ),
    job: Optional[str] = JobOption,
    form: ExportForm = typer.Option(ExportForm.FULL, help="full or minimal YAML, or a shell script."),
    stage: Optional[str] = StageOption,
    require_confirmed: bool = typer.Option(
        False, "--require-confirmed", help="Write nothing (exit 3) unless the finish confirmed it."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Write the best configuration found so far as a file that stock verl runs."""
    target = output or Path("best.sh" if form is ExportForm.SHELL else "best.yaml")
    selected = select(job)
    with Store.read(selected.url) as store:
        found = _results(store, stage_named(stage))
        the_job = selected.job or stored_job(store)
        provenance = Provenance.from_json(_without_job(store))
        verdict = store.finish_verdict()
    best = found[-1]
    if require_confirmed and not is_confirmed(verdict, best.overrides):
        raise NothingFeasibleError(f"{the_job.name}: {label(verdict, best.overrides)}; nothing was written")
    with open_preparer(the_job) as preparer:
        resolved = preparer.resolve(best.overrides)
        extensions = extensions_in(resolved.flat)
        environment = {**device_environment(the_job.resources), **the_job.verl.environment}
        text = render_export(
            form,
            resolved=resolved,
            verl=the_job.verl,
            overrides=whole_overrides(the_job, best.overrides),
            facts=ExportFacts(
                job_name=the_job.name,
                results=tuple(found),
                provenance=provenance,
                finish=verdict,
                environment={**environment, **(plugin_environment(environment) if extensions else {})},
                extensions=extensions,
            ),
            name=target.stem,
        )
    write_atomic(target, text, key="--output")
    if as_json:
        print_json(
            {
                "file": str(target),
                "stage": best.stage.value,
                "trial": best.best,
                "statement": best.statement,
                "confirmed": is_confirmed(verdict, best.overrides),
                "finish": label(verdict, best.overrides),
            }
        )
        return
    typer.echo(f"wrote {target}: {best.stage.value} #{best.best}; {best.statement}")
    typer.echo(label(verdict, best.overrides))
    typer.echo("its header says how to run it")


def _results(store: Store, stage: StageName | None) -> list[StageResult]:
    """Results up to the exported one, which is the last stage that has a best trial."""
    results = list(store.stage_results().values())
    if stage is not None:
        results = [r for r in results if list(StageName).index(r.stage) <= list(StageName).index(stage)]
    while results and results[-1].best is None:
        results.pop()
    if not results:
        raise NothingFeasibleError(f"{store.job_name}: no stage has a configuration to export yet")
    if stage is not None and results[-1].stage is not stage:
        raise InputError(
            Fault(
                where="--stage",
                found=stage.value,
                allowed=", ".join(result.stage.value for result in results),
                next_step="name a stage that has ended with a best trial",
            )
        )
    return results


def _without_job(store: Store) -> dict[str, object]:
    return {name: value for name, value in store.provenance().items() if name != "job"}
