"""`autotune check`: jobs, YAMLs and scripts; exit codes; `--fix`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.cli.app import exit_code_of
from autotune.verl_config.schema.released import released_schema
from tests.verl_config.rules.settings import ACTOR, ROLLOUT, SOUND

SCRIPT = """\
set -x
TP=${TP:-4}
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=$TP \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$UNKNOWN \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    trainer.n_gpus_per_node=2 "$@"
"""


def nested(values: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, name = key.split(".")
        section = tree
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = value
    return tree


def checked(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = exit_code_of(["check", *arguments, "--verl-version", "0.9.1", "--json"])
    return code, json.loads(capsys.readouterr().out)


def faults(answer: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in answer["findings"] if finding["severity"] != "note"}


def test_a_sound_job_is_clean(capsys: Any, job_file: Callable[..., str]) -> None:
    code, answer = checked(capsys, job_file())
    assert (code, faults(answer), answer["forecast"]) == (0, set(), None)


def test_the_fields_of_a_finding(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "verl.yaml"
    file.write_text(yaml.safe_dump(nested({**SOUND, "algorithm.clip_ratio": 0.1})))
    code, answer = checked(capsys, str(file))
    assert code == 2
    (finding,) = [finding for finding in answer["findings"] if finding["severity"] == "error"]
    assert finding == {
        "rule": "misplaced_key",
        "severity": "error",
        "key": "algorithm.clip_ratio",
        "found": "0.1",
        "message": f"verl 0.9.1 has this key at {ACTOR}.clip_ratio",
        "fix": {"set": {f"{ACTOR}.clip_ratio": 0.1}, "remove": ["algorithm.clip_ratio"]},
    }


def test_a_launch_script_is_read_and_what_it_does_not_tell_is_not_judged(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT)
    code, answer = checked(capsys, str(file))
    assert code == 2
    assert faults(answer) == {"rollout_gpus_divide"}
    assert checked(capsys, str(file), "--fix")[1]["not_fixed"] == [f"{ROLLOUT}.tensor_model_parallel_size"]
    assert file.read_text() == SCRIPT


def test_the_machine_named_counts(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "verl.yaml"
    file.write_text(
        yaml.safe_dump(nested({**SOUND, "actor_rollout_ref.model.path": "Qwen/Qwen2.5-7B-Instruct"}))
    )
    code, answer = checked(capsys, str(file), "--gpus", "8xH100-80GB")
    assert (code, answer["forecast"]["fits"]) == (0, True)
    assert {"capacity_gb", "fits", "phases", "largest"} == set(answer["forecast"])
    assert checked(capsys, str(file), "--gpus", "8xT4-16GB")[0] == 3
    assert faults(checked(capsys, str(file), "--gpus", "4")[1]) == {"gpus_agree"}


def test_fixes_are_written_until_nothing_is_left(capsys: Any, tmp_path: Path) -> None:
    values = {**SOUND, "algorithm.clip_ratio": 0.1, f"{ACTOR}.grad_clip": 0.5, "data.prefetch_factor": 2}
    file = tmp_path / "verl.yaml"
    file.write_text("# mine\n" + yaml.safe_dump(nested(values), sort_keys=False))
    code, answer = checked(capsys, str(file), "--fix")
    assert (code, faults(answer), answer["not_fixed"]) == (0, set(), [])
    text = file.read_text()
    written = yaml.safe_load(text)
    assert text.startswith("# mine\n")
    assert written["actor_rollout_ref"]["actor"]["clip_ratio_low"] == 0.1
    assert written["actor_rollout_ref"]["actor"]["optim"] == {"clip_grad": 0.5}
    assert "prefetch_factor" not in written["data"]


def test_a_composed_configuration_is_judged_by_what_is_the_users_own(capsys: Any, tmp_path: Path) -> None:

    whole = released_schema("0.9.1", "ppo_trainer").resolved(SOUND)
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(nested(whole)))
    assert checked(capsys, str(file))[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("none.yaml", None, []),
        ("list.yaml", "- a\n", []),
        ("empty.sh", "echo hello\n", []),
        ("verl.yaml", "data: {}\n", ["--gpus", "many"]),
        ("verl.yaml", "data: {}\n", ["--gpus", "0"]),
        ("verl.yaml", "data: {}\n", ["--verl-version", "0.2.0"]),
    ],
)
def test_what_cannot_be_checked(
    capsys: Any, tmp_path: Path, name: str, text: str | None, options: list[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert exit_code_of(["check", str(tmp_path / name), *options, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["faults"]


def test_a_person_reads_findings_and_fixes(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "verl.yaml"
    file.write_text(yaml.safe_dump(nested({**SOUND, f"{ACTOR}.grad_clip": 0.5})))
    assert exit_code_of(["check", str(file), "--verl-version", "0.9.1"]) == 2
    out = capsys.readouterr().out
    assert "warning dead_key  actor_rollout_ref.actor.grad_clip: 0.5" in out
    assert "fix: actor_rollout_ref.actor.optim.clip_grad=0.5" in out
    assert "verl 0.9.1, 8 GPUs: 0 errors, 1 warning" in out
