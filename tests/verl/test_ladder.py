"""One small ladder on real verl: killed, interrupted, resumed, exported, and run again by stock verl."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autotune.job.paths import AttemptPaths
from autotune.records import RUNGS, AttemptRole, AttemptState, Outcome, StageName
from autotune.store.store import Store
from autotune.trial.process_tree import is_alive
from benchmarks.tiny import ROOT
from tests.verl.small_ladder import Climbed
from tests.verl.stories import MICRO_BATCH

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2400)]


def test_three_stages_end_with_their_results(ladder: Climbed) -> None:
    assert ladder.ended.exit_code == 0, ladder.ended.output
    with Store.read(f"sqlite:///{ladder.paths.database}") as store:
        results = store.stage_results()
    assert list(results) == list(RUNGS)
    assert results[StageName.SURVIVE].acceptance_met
    assert results[StageName.SURVIVE].overrides[MICRO_BATCH] == 8
    for result in results.values():
        assert result.best is not None
        assert result.best_figures is not None
        assert result.best_figures.peak_memory_frac is not None
        assert result.best_figures.peak_memory_frac <= 0.80


def test_users_configuration_runs_out_of_memory_in_the_actor_update(ladder: Climbed) -> None:
    own, *others = [t for t in ladder.ended.trials if t.stage is StageName.SURVIVE]
    assert own.candidate.origin == "user configuration"
    failure = own.verdict.failure
    assert (failure.kind, failure.phase) == ("oom_gpu_actor_update", "update_actor")
    assert "allocate memory" in failure.line
    assert own.pruned
    survivor = next(t for t in others if t.accepted)
    roles = [a.role for a in ladder.ended.attempts if a.trial_id == survivor.id and a.verdict is not None]
    assert roles[-2:] == [AttemptRole.MEASURE, AttemptRole.CERTIFICATE]


def test_ctrl_c_ends_the_trials_and_exits_4(ladder: Climbed) -> None:
    interrupted = ladder.interrupted
    assert interrupted.exit_code == 4, interrupted.output
    assert all(a.end is not None and a.end.left_behind == () for a in interrupted.attempts)
    assert all(t.verdict is None for t in interrupted.trials)


def test_kill_9_loses_no_trial_and_leaves_no_process(ladder: Climbed) -> None:
    killed = ladder.killed
    assert not any(is_alive(key) for key in (killed.supervisor, killed.verl) if key is not None)
    own = next(t for t in ladder.ended.trials if t.stage is StageName.SURVIVE)
    attempts = [a for a in ladder.ended.attempts if a.trial_id == own.id]
    assert [a.index for a in attempts] == [0, 1, 2]
    assert [a.state for a in attempts] == [AttemptState.ENDED, AttemptState.LOST, AttemptState.ENDED]
    assert all(a.device_s > 0.0 for a in attempts)
    numbers = [t.number for t in ladder.ended.trials if t.stage is StageName.SURVIVE]
    assert numbers == list(range(len(numbers)))


def test_killed_worker_is_the_machines_fault_and_tried_again(ladder: Climbed) -> None:
    trial = next(t for t in ladder.ended.trials if t.stage is StageName.QUALITY)
    killed, again = [a for a in ladder.ended.attempts if a.trial_id == trial.id]
    assert killed.verdict is not None
    assert killed.verdict.outcome is Outcome.INFRASTRUCTURE
    assert killed.verdict.failure is not None
    assert killed.verdict.failure.kind == "ray_actor_death"
    assert killed.end is not None
    assert killed.end.left_behind == ()
    assert again.verdict is not None
    assert again.verdict.outcome is Outcome.COMPLETED
    assert trial.verdict == again.verdict


def test_two_trials_ran_side_by_side_and_learned_the_same(ladder: Climbed) -> None:
    first, second = [t for t in ladder.ended.trials if t.stage is StageName.SPEED][:2]
    assert first.candidate.params == second.candidate.params
    assert first.ended_utc > second.started_utc
    assert second.ended_utc > first.started_utc
    # Each got its own weights: the rollout's probabilities are the trainer's, within rounding.
    for trial in (first, second):
        attempt = [a for a in ladder.ended.attempts if a.trial_id == trial.id][-1]
        rows = [
            json.loads(line) for line in AttemptPaths(Path(attempt.folder)).metrics.read_text().splitlines()
        ]
        assert all(row["data"]["training/rollout_probs_diff_max"] < 1e-4 for row in rows)


def test_exported_file_runs_on_stock_verl(ladder: Climbed, tmp_path: Path) -> None:
    best = tmp_path / "best.yaml"
    job = str(ladder.job)
    exported = subprocess.run(
        [sys.executable, "-m", "autotune", "export", "--job", job, "-o", str(best), "--json"],
        cwd=ROOT,
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
