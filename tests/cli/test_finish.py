"""What the commands say of a winner before and after it was confirmed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.app import exit_code_of
from autotune.clock import ManualClock
from autotune.ladder import finish
from autotune.records import FinishOutcome, StageName
from autotune.store.store import Store
from tests.cli.builders import answered, printed
from tests.ladder.finish_builders import plan, ran_pairs, view_of


@pytest.fixture
def finished(climbed_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Ends the finish of a climbed job with this outcome; the job's folder is the working directory."""
    shutil.copytree(climbed_folder, tmp_path / "job")
    monkeypatch.chdir(tmp_path / "job")

    def end(outcome: str) -> None:
        clock = ManualClock()
        with closing(sqlite3.connect("results/played.db")) as database:
            name, job_hash = database.execute("SELECT job_name, job_hash FROM autotune_job").fetchone()
        url = "sqlite:///results/played.db"
        with Store.open(url, job_name=name, job_hash=job_hash, version="test") as store:
            winner = store.stage_results()[StageName.QUALITY].overrides
            store.plan_finish(plan(winner=winner), clock.utc_now())
            verdict = finish.verdict(view_of(*ran_pairs(3, gain=0.3), winner=winner))
            assert verdict is not None
            store.end_finish(replace(verdict, outcome=FinishOutcome(outcome)), clock.utc_now())

    return end


def test_an_unconfirmed_winner_is_labelled(capsys: Any, climbed: Path, tmp_path: Path) -> None:
    target = tmp_path / "best.yaml"
    answer = answered(capsys, "export", "-o", str(target))
    assert answer["confirmed"] is False
    assert "# NOT CONFIRMED: no finish was run" in target.read_text()
    assert answered(capsys, "status")["finish"] is None


@pytest.mark.parametrize("outcome", [None, "inconclusive", "not better"])
def test_an_unconfirmed_winner_is_refused_where_that_is_asked(
    capsys: Any, finished: Callable[[str], None], tmp_path: Path, outcome: str | None
) -> None:
    if outcome is not None:
        finished(outcome)
    target = tmp_path / "best.yaml"
    assert exit_code_of(["export", "-o", str(target), "--require-confirmed"]) == 3
    assert "NOT CONFIRMED" in capsys.readouterr().err
    assert not target.exists()


def test_a_confirmed_winner_is_exported_with_its_interval(
    capsys: Any, finished: Callable[[str], None], tmp_path: Path
) -> None:
    finished("better")
    target = tmp_path / "best.yaml"
    answer = answered(capsys, "export", "-o", str(target), "--require-confirmed")
    assert answer["confirmed"] is True
    text = target.read_text()
    assert "# confirmed: better, tokens/s +30.0 % [" in text
    assert "seeds 101, 102, 103" in text


def test_an_earlier_stages_best_is_not_what_was_confirmed(
    capsys: Any, finished: Callable[[str], None], tmp_path: Path
) -> None:
    finished("better")
    target = tmp_path / "speed.yaml"
    assert answered(capsys, "export", "--stage", "speed", "-o", str(target))["confirmed"] is False
    assert "finish was run for another configuration" in target.read_text()


def test_status_tells_the_verdict(capsys: Any, finished: Callable[[str], None]) -> None:
    finished("better")
    answer = answered(capsys, "status")
    assert answer["verdict"].startswith("confirmed: better, ")
    told = answer["finish"]
    assert (told["state"], told["pairs_planned"], told["trials"]) == ("ended", 6, 0)
    speed = told["verdict"]["comparisons"][0]
    assert speed["metric"] == "tokens_per_s_per_gpu"
    assert speed["low"] < speed["gain"] < speed["high"]
    assert "confirmed: better" in printed(capsys, "status")


@pytest.mark.parametrize(
    ("stage", "told"), [((), True), (("--stage", "speed"), False), (("--stage", "finish"), True)]
)
def test_dry_run_tells_the_finish(
    capsys: Any, job_file: Callable[..., str], stage: tuple[str, ...], told: bool
) -> None:
    answer = answered(capsys, "run", job_file(), "--dry-run", *stage)
    assert answer["finish"] == ({"pairs_at_most": 6} if told else None)
    assert ("up to 6 cold runs" in printed(capsys, "run", "job.yaml", "--dry-run", *stage)) is told


def test_a_job_can_leave_it_out_and_still_run_it_alone(capsys: Any, job_file: Callable[..., str]) -> None:
    name = job_file(lambda job: job.update(finish={"enabled": False}))
    assert answered(capsys, "run", name, "--dry-run")["finish"] is None
    assert answered(capsys, "run", name, "--dry-run", "--stage", "finish")["finish"] is not None
