"""status, trials, show and export on the database of a job that was climbed; their JSON is a promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.builders import answered, printed, refused
from tests.controller.conftest import LR, MICRO_BATCH, SEQUENCES

pytestmark = pytest.mark.timeout(240)
TRIAL = {
    "stage": str,
    "number": int,
    "state": str,
    "outcome": str,
    "kind": (str, type(None)),
    "params": dict,
    "objective": (float, type(None)),
    "peak_memory_frac": (float, type(None)),
    "tokens_per_s_per_gpu": (float, type(None)),
    "reward": (float, type(None)),
    "kl": (float, type(None)),
    "gpu_s": float,
    "started_utc": str,
    "ended_utc": str,
    "session": type(None),
    "origin": str,
    "accepted": bool,
    "reason": (str, type(None)),
}
"""`trials --json`: more fields may be added, none of these may go or change its kind."""


def assert_fields(answer: dict[str, Any], fields: dict[str, Any]) -> None:
    for name, kinds in fields.items():
        assert isinstance(answer[name], kinds), name


@pytest.mark.parametrize(
    "job",
    [
        (),
        ("--job", "played"),
        ("--job", "played.yaml"),
        ("-j", "results/played.db"),
        ("-j", "sqlite:///results/played.db"),
    ],
)
def test_the_ways_to_name_a_job(capsys: Any, climbed: Path, job: tuple[str, ...]) -> None:
    assert answered(capsys, "status", *job)["job"] == "played"
    assert len(answered(capsys, "trials", *job)) == len(answered(capsys, "trials"))


def test_reading_leaves_the_folder_as_it_was(capsys: Any, climbed: Path) -> None:
    def files() -> set[str]:
        return {path.name for path in (climbed / "results").iterdir() if path.is_file()}

    before = files()
    for command in (("status",), ("trials",), ("show", "survive/0")):
        printed(capsys, *command)
    assert files() - {"played.db-wal", "played.db-shm"} == before - {"played.db-wal", "played.db-shm"}


# status


def test_status_fields(capsys: Any, climbed: Path) -> None:
    status = answered(capsys, "status")
    assert set(status) >= {"job", "stages", "budget", "verdict"}
    assert status["verdict"].startswith("quality: ")
    assert set(status["budget"]) == {"gpu_hours", "trials", "wall_hours"}
    for part in status["budget"].values():
        assert set(part) == {"used", "limit"}
    assert [stage["stage"] for stage in status["stages"]] == ["survive", "speed", "quality"]
    for stage in status["stages"]:
        assert_fields(
            stage,
            {
                "state": str,
                "trials": int,
                "trials_planned": int,
                "running": int,
                "outcomes": dict,
                "accepted": list,
                "acceptance_met": bool,
                "best": int,
                "best_trial": dict,
                "statement": str,
            },
        )
        assert_fields(stage["best_trial"], TRIAL)
        assert stage["best_trial"]["number"] == stage["best"]


def test_status_for_people(capsys: Any, climbed: Path) -> None:
    text = printed(capsys, "status")
    assert "job played" in text
    for word in ("survive", "speed", "quality", "ended", "met", "GPU hours"):
        assert word in text


# trials


def test_trials_fields(capsys: Any, climbed: Path) -> None:
    trials = answered(capsys, "trials")
    assert {trial["stage"] for trial in trials} == {"survive", "speed", "quality"}
    for trial in trials:
        assert_fields(trial, TRIAL)
        assert trial["state"] in ("running", "complete", "pruned", "fail")
    first = trials[0]
    assert (first["stage"], first["number"], first["state"]) == ("survive", 0, "pruned")
    assert first["kind"] == "oom_gpu_actor_update"
    assert first["params"] == {MICRO_BATCH: 64}
    assert first["origin"] == "user configuration"
    assert first["gpu_s"] > 0


def test_trials_of_one_stage(capsys: Any, climbed: Path) -> None:
    assert {trial["stage"] for trial in answered(capsys, "trials", "--stage", "speed")} == {"speed"}


def test_trials_for_people(capsys: Any, climbed: Path) -> None:
    lines = printed(capsys, "trials").splitlines()
    (oom,) = [line for line in lines if line.startswith("survive/0 ")]
    assert "oom_gpu_actor_update" in oom
    assert any(line.startswith("speed/") and "accepted" in line for line in lines)


# show


@pytest.mark.parametrize(
    "trial", [("survive/0",), ("survive-0",), ("0", "--stage", "survive"), ("SURVIVE/0",)]
)
def test_show_fields(capsys: Any, climbed: Path, trial: tuple[str, ...]) -> None:
    page = answered(capsys, "show", *trial)
    assert_fields(page, TRIAL)
    assert_fields(
        page,
        {
            "phase": str,
            "line": dict,
            "warnings": list,
            "steps": int,
            "steps_asked": int,
            "peak_by_phase_frac": dict,
            "overrides": dict,
            "curves": dict,
            "attempts": list,
            "files": list,
        },
    )
    assert page["phase"] == "update_actor"
    assert page["line"]["number"] == 7
    assert "can't allocate memory" in page["line"]["text"]


def test_show_has_curves_and_attempts(capsys: Any, climbed: Path) -> None:
    best = answered(capsys, "status")["stages"][0]["best"]
    page = answered(capsys, "show", f"survive/{best}")
    assert len(page["curves"]["critic/rewards/mean"]) == page["steps"] == 3
    assert [attempt["role"] for attempt in page["attempts"]] == ["measure", "certificate"]
    for attempt in page["attempts"]:
        assert {"attempt_id", "index", "state", "folder", "exit_code", "left_behind"} <= set(attempt)


def test_show_for_people(capsys: Any, climbed: Path) -> None:
    text = printed(capsys, "show", "survive/0")
    for word in ("oom_gpu_actor_update", "update_actor", "line 7", "can't allocate", "64", "attempts"):
        assert word in text
    assert "critic/rewards/mean" in printed(capsys, "show", "quality/0")


def test_show_what_is_not_there(capsys: Any, climbed: Path) -> None:
    (fault,) = refused(capsys, "show", "survive/99")
    assert "autotune trials" in fault["next_step"]
    (fault,) = refused(capsys, "show", "0")
    assert "survive/0" in fault["allowed"]
    assert "name the stage" in fault["next_step"]


@pytest.mark.parametrize("command", [("trials",), ("show", "0"), ("export",)])
def test_a_stage_that_does_not_exist(capsys: Any, climbed: Path, command: tuple[str, ...]) -> None:
    (fault,) = refused(capsys, *command, "--stage", "polish")
    assert (fault["where"], fault["found"]) == ("--stage", "polish")
    assert not (climbed / "best.yaml").exists()


# export


@pytest.mark.parametrize("form", ["full", "minimal", "shell"])
def test_export_into_a_folder_that_is_missing(capsys: Any, climbed: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / "new" / "folder" / ("winner.sh" if form == "shell" else "winner.yaml")
    answer = answered(capsys, "export", "--form", form, "-o", str(target))
    assert_fields(answer, {"file": str, "stage": str, "trial": int, "statement": str})
    assert answer["stage"] == "quality"
    text = target.read_text()
    assert f"--config-name {target.stem}" in text or form == "shell"
    trial = answered(capsys, "show", f"quality/{answer['trial']}")
    if form == "shell":
        assert text.startswith("#!/usr/bin/env bash\n")
        assert MICRO_BATCH in text
    else:
        exported = yaml.safe_load(text)
        optimizer = exported["actor_rollout_ref"]["actor"]["optim"]
        assert math.isclose(float(optimizer["lr"]), trial["params"][LR])


def test_export_of_an_earlier_stage(capsys: Any, climbed: Path, tmp_path: Path) -> None:
    target = tmp_path / "speed.yaml"
    answer = answered(capsys, "export", "--stage", "speed", "--form", "minimal", "-o", str(target))
    assert answer["stage"] == "speed"
    assert yaml.safe_load(target.read_text())["actor_rollout_ref"]["rollout"]["max_num_seqs"] == 64
    assert SEQUENCES.endswith("max_num_seqs")


def test_export_by_the_job_file_and_by_the_database_are_the_same(
    capsys: Any, climbed: Path, tmp_path: Path
) -> None:
    texts = []
    for job in ("played.yaml", "results/played.db"):
        printed(capsys, "export", "--job", job, "-o", str(tmp_path / "best.yaml"))
        texts.append((tmp_path / "best.yaml").read_text())
    assert texts[0] == texts[1]


def test_export_says_what_it_wrote(
    capsys: Any, climbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = printed(capsys, "export", "--job", str(climbed / "results" / "played.db"), "--form", "shell")
    assert text.startswith("wrote best.sh: quality #")
    assert (tmp_path / "best.sh").is_file()


@pytest.mark.parametrize("target", ["file/best.yaml", "/proc/best.yaml"])
def test_export_to_where_nothing_can_be_written(
    capsys: Any, climbed: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    (fault,) = refused(capsys, "export", "-o", str(tmp_path / target))
    assert fault["key"] == "--output"
    assert "--output" in fault["next_step"]
