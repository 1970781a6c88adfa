"""`autotune report`: what was found, as one HTML file that works offline."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.cli.selection import JobOption, select, stored_job
from autotune.clock import SystemClock
from autotune.job.paths import write_atomic
from autotune.report.html.page import report_html
from autotune.report.report_data import read_report, report_json
from autotune.store.store import Store


def report(
    output: Optional[Path] = typer.Option(
        None, "--output", "-o", help="File to write; default: report.html, none with --json."
    ),
    job: Optional[str] = JobOption,
    as_json: bool = typer.Option(False, "--json", help="Print the report's data as one JSON object."),
) -> None:
    """Write the report as one HTML file: verdict, ladder, memory, curves, every trial, cost."""
    selected = select(job)
    with Store.read(selected.url) as store:
        data = read_report(store, selected.job or stored_job(store), SystemClock().utc_now())
    target = output or (None if as_json else Path("report.html"))
    if target is not None:
        write_atomic(target, report_html(data), key="--output")
    if as_json:
        print_json({**report_json(data), "file": None if target is None else str(target)})
    else:
        typer.echo(f"wrote {target}: {data.headline.word}; {data.headline.sentence}")
