"""What commands print at their end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType

from autotune.records import StageResult
from autotune.report.wording import strict

_FILE_WIDTH = 200


def print_json(answer: Any) -> None:
    """One JSON document on standard output; figures that are not finite are null."""
    typer.echo(json.dumps(strict(answer), indent=2, default=str, allow_nan=False))


def print_view(view: RenderableType) -> None:
    """Tables and text for people, as wide as they need to be where nobody sets a width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    console.print(view)


def print_results(
    summary: Mapping[str, Any], results: Sequence[StageResult], job_file: Path, *, as_json: bool
) -> None:
    """How each stage ended, and what to do with it."""
    if as_json:
        stages = [{**asdict(result), "stage": result.stage.value} for result in results]
        print_json({**summary, "stages": stages})
        return
    for result in results:
        typer.echo(f"{result.stage.value:<8} {result.trials} trials; {result.statement}")
    verdict = summary.get("finish")
    if verdict is not None:
        typer.echo(f"{'finish':<8} {verdict['statement']}")
    typer.echo("")
    typer.echo(f"device hours {summary['device_s'] / 3600:.2f}, database {summary['database']}")
    typer.echo("next:")
    typer.echo(f"  autotune trials --job {job_file}      every trial with its outcome")
    typer.echo(f"  autotune dashboard --job {job_file}   curves and notes in a browser")
    typer.echo(f"  autotune export --job {job_file} -o best.yaml")
