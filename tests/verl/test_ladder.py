"""One small ladder on real verl: killed, interrupted, resumed, exported, and run again by stock verl."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.job.paths import AttemptPaths, JobPaths
from autotune.records import AttemptRole, AttemptState, Outcome, StageName
from autotune.store.store import Store
from autotune.trial.process_tree import is_alive
from autotune.trial.running import read_running
from tests.verl.stories import LOG_PROB, MICRO_BATCH, REPOSITORY, finish, start, tiny_job, wait_until

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]

SEQUENCES = "actor_rollout_ref.rollout.max_num_seqs"
LR = "actor_rollout_ref.actor.optim.lr"


@pytest.fixture(scope="module")
def ladder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Kills the controller in the first trial, presses Ctrl-C in the second stage, and lets it end."""
    folder = tmp_path_factory.mktemp("ladder") / "small-ladder"
    micro = {"kind": "categorical", "choices": [8, 64]}
    stages = {
        "survive": {
            "search_space": {"name": "s", "parameters": {MICRO_BATCH: micro}},
            "steps": 3,
            "trials": 3,
        },
        "speed": {
            "search_space": {
                "name": "v",
                "parameters": {SEQUENCES: {"kind": "categorical", "choices": [4, 64]}},
            },
            "steps": 4,
            "trials": 3,
        },
        "quality": {
            "search_space": {
                "name": "q",
                "parameters": {LR: {"kind": "float", "low": 1.0e-4, "high": 1.0e-2, "log": True}},
            },
            "steps": 4,
            "trials": 1,
        },
    }
    overrides = {MICRO_BATCH: 64, LOG_PROB: 8, SEQUENCES: 4}
    job = tiny_job(folder, tiny, overrides, stages=stages, resources={"trials_at_once": 2})
    paths = JobPaths(folder / "results", folder.name)

    first = paths.attempt(StageName.SURVIVE, 0, 0)
    controller = start(job)
    wait_until(lambda: first.console.exists() and "ray init kwargs" in first.console.read_text(), controller)
    processes = _processes(first)
    os.kill(controller.pid, signal.SIGKILL)
    controller.communicate()

    controller = start(job)
    speed = paths.attempt(StageName.SPEED, 0, 0)
    wait_until(lambda: speed.console.exists() and "ray init kwargs" in speed.console.read_text(), controller)
    survived_kill = [key for key in processes if is_alive(key)]
    os.kill(controller.pid, signal.SIGINT)
    interrupted = finish(controller, job)

    ended = finish(start(job), job)
    return {
        "job": job,
        "paths": paths,
        "interrupted": interrupted,
        "ended": ended,
        "survived_kill": survived_kill,
    }


def _processes(paths: AttemptPaths) -> list[Any]:
    running = read_running(paths.running)
    assert running is not None
    return [key for key in (running.supervisor, running.verl) if key is not None]


def test_three_stages_end_with_their_results(ladder: Any) -> None:
    assert ladder["ended"].exit_code == 0, ladder["ended"].output
    with Store.read(f"sqlite:///{ladder['paths'].database}") as store:
        results = store.stage_results()
    assert list(results) == list(StageName)
    assert results[StageName.SURVIVE].acceptance_met
    assert results[StageName.SURVIVE].overrides[MICRO_BATCH] == 8
    for result in results.values():
        assert result.best is not None
        assert result.best_figures is not None
        assert result.best_figures.peak_memory_frac is not None
        assert result.best_figures.peak_memory_frac <= 0.80


def test_users_configuration_ran_out_of_memory_and_was_repaired(ladder: Any) -> None:
    own, repaired = [t for t in ladder["ended"].trials if t.stage is StageName.SURVIVE][:2]
    assert own.candidate.origin == "user configuration"
    assert own.verdict.failure.kind == "oom_gpu_actor_update"
    assert repaired.candidate.origin.startswith("repair of #0")
    assert repaired.accepted
    roles = [a.role for a in ladder["ended"].attempts if a.trial_id == repaired.id]
    assert roles == [AttemptRole.MEASURE, AttemptRole.CERTIFICATE]


def test_kill_9_loses_no_trial_and_leaves_no_process(ladder: Any) -> None:
    assert ladder["survived_kill"] == []
    own = next(t for t in ladder["ended"].trials if t.stage is StageName.SURVIVE)
    attempts = [a for a in ladder["ended"].attempts if a.trial_id == own.id]
    assert [a.index for a in attempts] == list(range(len(attempts)))
    assert attempts[0].state is AttemptState.LOST
    assert all(a.device_s > 0.0 for a in attempts)


def test_ctrl_c_ends_the_trials_and_exits_4(ladder: Any) -> None:
    interrupted = ladder["interrupted"]
    assert interrupted.exit_code == 4, interrupted.output
    assert all(a.end is not None and a.end.left_behind == () for a in interrupted.attempts)
    open_trials = [t for t in interrupted.trials if t.verdict is None]
    assert {t.stage for t in open_trials} == {StageName.SPEED}


def test_two_trials_ran_side_by_side_and_learned_the_same(ladder: Any) -> None:
    first, second = [t for t in ladder["ended"].trials if t.stage is StageName.SPEED][:2]
    assert first.candidate.params == second.candidate.params
    assert first.ended_utc > second.started_utc
    assert second.ended_utc > first.started_utc
    # Each got its own weights: the rollout's probabilities are the trainer's, within rounding.
    for trial in (first, second):
        attempt = [a for a in ladder["ended"].attempts if a.trial_id == trial.id][-1]
        rows = [
            json.loads(line) for line in AttemptPaths(Path(attempt.folder)).metrics.read_text().splitlines()
        ]
        assert all(row["data"]["training/rollout_probs_diff_max"] < 1e-4 for row in rows)


def test_exported_file_runs_on_stock_verl(ladder: Any, tmp_path: Path) -> None:
    best = tmp_path / "best.yaml"
    job = str(ladder["job"])
    exported = subprocess.run(
        [sys.executable, "-m", "autotune", "export", "--job", job, "-o", str(best), "--json"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(exported.stdout)["stage"] == "quality"
    metrics = tmp_path / "metrics.jsonl"
    environment = {**os.environ, **_exports(best.read_text()), "VERL_FILE_LOGGER_PATH": str(metrics)}
    command = [
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        "--config-path",
        str(tmp_path),
        "--config-name",
        "best",
    ]
    own = [
        "trainer.total_training_steps=2",
        "trainer.logger=[console,file]",
        "trainer.val_before_train=False",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        f"hydra.run.dir={tmp_path}/hydra",
    ]
    ran = subprocess.run(
        [*command, *own],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 2]
    assert yaml.safe_load(best.read_text())["actor_rollout_ref"]["actor"]["ppo_micro_batch_size_per_gpu"] == 8


def _exports(text: str) -> dict[str, str]:
    """The environment that the file's header asks for."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#") and " export " in line:
            name, value = line.split(" export ", 1)[1].split("=", 1)
            found[name] = shlex.split(value)[0]
    return found


def test_no_trial_ended_by_itself_but_the_first(ladder: Any) -> None:
    outcomes = [t.verdict.outcome for t in ladder["ended"].trials]
    assert outcomes == [Outcome.FAILED, *[Outcome.COMPLETED] * (len(outcomes) - 1)]
