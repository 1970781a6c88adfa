"""`init --from`: somebody's script or YAML becomes a job; what it does not tell is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotune.job.loading import load_job
from tests.cli.builders import answered, printed, refused

SCRIPT = """\
NGPUS=${NGPUS:-4}
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=train.parquet data.val_files=$VAL \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B \\
    actor_rollout_ref.rollout.name=vllm \\
    trainer.experiment_name=x-$(date +%s) \\
    trainer.n_gpus_per_node=$NGPUS
"""


def test_a_script_becomes_a_job(capsys: Any, folder: Path) -> None:
    (folder / "my run.sh").write_text(SCRIPT)
    text = printed(capsys, "init", "--from", "my run.sh")
    assert text.startswith("wrote jobs/my-run.yaml: 5 overrides, grpo on 4 GPU(s)\n")
    assert "line 2: data.val_files=$VAL" in text
    assert "what `$(date +%s)` prints is known only by running it" in text
    job = load_job(folder / "jobs" / "my-run.yaml")
    assert job.resources.gpus_per_trial == 4
    assert "data.val_files" not in job.verl.overrides


def test_the_command_line_fills_what_the_script_does_not_tell(capsys: Any, folder: Path) -> None:
    (folder / "run.sh").write_text(SCRIPT)
    answer = answered(capsys, "init", "named", "--from", "run.sh", "--val", "val.parquet", "--gpus", "2")
    assert (answer["job_file"], answer["gpus"], answer["algorithm"]) == ("jobs/named.yaml", 2, "grpo")
    assert [one["key"] for one in answer["unresolved"]] == ["trainer.experiment_name"]
    assert answer["overrides"]["data.val_files"] == "val.parquet"


def test_a_script_without_a_training_is_refused(capsys: Any, folder: Path) -> None:
    (folder / "run.sh").write_text("echo hello\n")
    answer = refused(capsys, "init", "--from", "run.sh")
    assert "verl.trainer.main_ppo" in str(answer)


def test_without_a_source_all_options_are_needed(capsys: Any, folder: Path) -> None:
    answer = refused(capsys, "init")
    assert all(option in str(answer) for option in ("NAME", "--model", "--train", "--val"))
