"""`autotune status`: where a job stands."""

from __future__ import annotations

from typing import Optional

import typer

from autotune.cli.printing import print_json, print_view
from autotune.cli.selection import JobOption, select, stored_job
from autotune.report.status import read_status, status_json, status_view
from autotune.store.store import Store


def status(
    job: Optional[str] = JobOption,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show each stage's trials and best, the budget and the verdict."""
    selected = select(job)
    with Store.read(selected.url) as store:
        standing = read_status(store, selected.job or stored_job(store))
    if as_json:
        print_json(status_json(standing))
    else:
        print_view(status_view(standing))
