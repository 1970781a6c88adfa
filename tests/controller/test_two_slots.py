"""How many trials are in the air: as many as the slots allow, and one where they would disturb each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.records import Event, StageName
from tests.controller.conftest import job_of, synthetic_verl

SLOTS = 3


def busiest_by_stage(rig: Any, job: Any) -> dict[str, int]:
    busiest: dict[str, int] = {}

    def count(request: Any, tree: dict[str, Any]) -> list[Event]:
        stage = Path(request.folder).name.split("-")[0]
        busiest[stage] = max(busiest.get(stage, 0), SLOTS - one.launcher.slots() + 1)
        return synthetic_verl(request, tree)

    with rig(count, limit=SLOTS, job=job) as one:
        run_ladder(one.services, one.controller, tuple(StageName))
    return busiest


@pytest.mark.parametrize(("alone", "most"), [(None, 1), (False, SLOTS)])
def test_speed_trials_share_a_cpu_only_where_the_job_says_so(
    rig: Any, tmp_path: Path, alone: bool | None, most: int
) -> None:
    job = job_of(tmp_path / "results")
    speed = job.stages.speed.model_copy(update={"alone": alone, "baseline_repeats": SLOTS})
    job = job.model_copy(update={"stages": job.stages.model_copy(update={"speed": speed})})
    busiest = busiest_by_stage(rig, job)
    assert busiest["speed"] == most
    assert busiest["quality"] > 1
