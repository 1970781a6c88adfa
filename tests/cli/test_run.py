"""`autotune run`: what it plans, what it prints at the end, and a disk that fills up under it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.app import exit_code_of
from autotune.cli.printing import print_results
from autotune.controller.ladder_run import run_ladder
from autotune.errors import StoreError
from autotune.job.shipped import shipped, shipped_names
from autotune.records import Figures, StageName, StageResult
from tests.cli.builders import answered, listing, printed
from tests.controller.conftest import MICRO_BATCH, job_of, synthetic_verl


@pytest.mark.parametrize("name", shipped_names("jobs"))
def test_dry_run_of_the_ready_jobs(capsys: Any, folder: Path, name: str) -> None:
    path = shipped("jobs", name)
    assert path is not None
    before = listing(folder)
    plan = answered(capsys, "run", str(path), "--dry-run")
    assert plan["job"] == name
    assert [stage["stage"] for stage in plan["stages"]] == ["survive", "speed", "quality"]
    for stage in plan["stages"]:
        assert stage["trials_planned"] >= 1
        assert stage["first_candidates"]
        for candidate in stage["first_candidates"]:
            assert set(candidate) >= {"origin", "params"}
            assert candidate["params"]
    survive = plan["stages"][0]["first_candidates"]
    assert survive[0]["origin"] == "user configuration"
    assert listing(folder) == before


def test_dry_run_of_one_stage(capsys: Any, job_file: Callable[..., str], folder: Path) -> None:
    name = job_file()
    before = listing(folder)
    (stage,) = answered(capsys, "run", name, "--dry-run", "--stage", "speed")["stages"]
    assert (stage["stage"], stage["trials_planned"]) == ("speed", 6)
    assert listing(folder) == before


def test_dry_run_for_people(capsys: Any, job_file: Callable[..., str]) -> None:
    text = printed(capsys, "run", job_file(), "--dry-run")
    assert "survive: up to 8 trials of 3 steps, starting with" in text
    assert f"{MICRO_BATCH}: 64" in text


def test_dry_run_needs_no_inputs_that_only_the_target_machine_has(
    capsys: Any, job_file: Callable[..., str], folder: Path
) -> None:
    name = job_file(lambda job: job["resources"].update(device="gpu", gpus_per_trial=8))
    (folder / "train.parquet").unlink()
    assert len(answered(capsys, "run", name, "--dry-run")["stages"]) == 3


SUMMARY = {"job": "tiny", "database": "sqlite:///results/tiny.db", "device_s": 1800.0, "wall_s": 1900.0}


def test_results_as_json_are_strict(capsys: Any) -> None:
    import json

    result = StageResult(
        stage=StageName.SURVIVE,
        trials=3,
        accepted=(2,),
        acceptance_met=True,
        best=2,
        statement="#2 ran",
        best_figures=Figures(reward=float("nan")),
    )
    print_results(SUMMARY, [result], Path("tiny.yaml"), as_json=True)
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert set(answer) == {"job", "database", "device_s", "wall_s", "stages"}
    assert answer["stages"][0]["stage"] == "survive"
    assert answer["stages"][0]["best_figures"]["reward"] is None


def test_results_for_people_say_what_comes_next(capsys: Any) -> None:
    print_results(SUMMARY, [], Path("jobs/tiny.yaml"), as_json=False)
    text = capsys.readouterr().out
    assert "device hours 0.50" in text
    assert "autotune export --job jobs/tiny.yaml -o best.yaml" in text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a database."""
    target = tmp_path / "disk"
    target.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(target)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk that fills up needs a mount of its own: {mounted.stderr.decode().strip()}")
    yield target
    subprocess.run(["umount", "-l", str(target)], check=True)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("full_at", [0, 2])
def test_a_disk_that_fills_up_stops_the_run_and_a_later_one_resumes(
    rig: Any, small_disk: Path, full_at: int
) -> None:
    job = job_of(small_disk / "results")
    ballast = small_disk / "ballast"

    def fill_the_disk() -> None:
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 2**20):
                pass  # the last piece is written in part

    starts = 0

    def filling(request: Any, tree: dict[str, Any]) -> Any:
        nonlocal starts
        starts += 1
        if starts == full_at:
            fill_the_disk()
        return synthetic_verl(request, tree)

    with rig(filling, job=job) as one:
        if full_at == 0:
            fill_the_disk()
        with pytest.raises(StoreError) as caught:
            run_ladder(one.services, one.controller, [StageName.SURVIVE])
    (fault,) = caught.value.faults
    assert caught.value.exit_code == 2
    assert "played.db" in fault.where
    assert "full" in fault.found or "disk" in fault.found
    assert "free space" in fault.next_step or "disk" in fault.next_step
    ballast.unlink()
    with rig(job=job) as two:
        results = run_ladder(two.services, two.controller, [StageName.SURVIVE])
        numbers = [trial.number for trial in two.store.trials(StageName.SURVIVE)]
    assert results[StageName.SURVIVE].acceptance_met
    assert numbers == sorted(set(numbers))


def test_exit_code_of_a_dry_run(job_file: Callable[..., str], capsys: Any) -> None:
    assert exit_code_of(["run", job_file(), "--dry-run"]) == 0
    assert capsys.readouterr().err == ""
