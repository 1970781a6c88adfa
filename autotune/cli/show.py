"""`autotune show TRIAL`: why a trial ended, its figures, curves and files."""

from __future__ import annotations

from typing import Optional

import typer

from autotune.cli.printing import print_json, print_view
from autotune.cli.selection import JobOption, StageOption, open_selected, stage_named
from autotune.report.trial_page import find_trial, read_trial_page, trial_page, trial_page_json


def show(
    trial: str = typer.Argument(..., metavar="TRIAL", help="A number, or stage/number such as speed/3."),
    job: Optional[str] = JobOption,
    stage: Optional[str] = StageOption,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show one trial: outcome, decisive line, curves, memory by phase, attempts, files."""
    with open_selected(job) as store:
        page = read_trial_page(store, find_trial(store.trials(stage_named(stage)), trial))
    if as_json:
        print_json(trial_page_json(page))
    else:
        print_view(trial_page(page))
