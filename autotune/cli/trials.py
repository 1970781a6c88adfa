"""`autotune trials`: every trial with its outcome."""

from __future__ import annotations

from typing import Optional

import typer

from autotune.cli.printing import print_json, print_view
from autotune.cli.selection import JobOption, StageOption, open_selected, stage_named
from autotune.report.tables import trials_json, trials_table


def trials(
    job: Optional[str] = JobOption,
    stage: Optional[str] = StageOption,
    as_json: bool = typer.Option(False, "--json", help="Print a JSON array, one object a trial."),
) -> None:
    """List trials in the order of their start."""
    with open_selected(job) as store:
        found = store.trials(stage_named(stage))
        device_s = store.device_s_by_trial()
    if as_json:
        print_json(trials_json(found, device_s, store.session_by_trial()))
    else:
        print_view(trials_table(found, device_s))
