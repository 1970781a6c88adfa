"""`autotune explain`: a path or standard input, the stable fields, and what a person reads."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.app import exit_code_of
from tests.judge.recorded import DATA

OOM = str(DATA / "oom_log_prob_cpu.console.log")
HEALTHY = str(DATA / "grpo_tiny_40_steps.console.log")


def answer(capsys: Any, log: str) -> dict[str, Any]:
    assert exit_code_of(["explain", log, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_fields_of_a_failure(capsys: Any) -> None:
    found = answer(capsys, OOM)
    assert (found["kind"], found["phase"], found["group"]) == (
        "oom_gpu_log_prob",
        "old_log_prob",
        "candidate",
    )
    assert "can't allocate memory" in found["line"]["text"]
    assert found["line"]["number"] == 313
    assert found["retry"] is False
    assert all(set(lever) == {"key", "from", "to", "why"} for lever in found["levers"])
    assert found["cause"]


def test_a_healthy_run_has_no_kind(capsys: Any) -> None:
    found = answer(capsys, HEALTHY)
    assert (found["kind"], found["group"], found["line"], found["levers"]) == (None, None, None, [])
    assert (found["finished"], found["steps"]) == (True, 40)


def test_standard_input(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(Path(OOM).read_bytes())

    monkeypatch.setattr(sys, "stdin", Input)
    assert answer(capsys, "-")["kind"] == "oom_gpu_log_prob"


def test_what_is_not_known_shows_the_last_lines(capsys: Any, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("one\ntwo\n\n")
    found = answer(capsys, str(log))
    assert found["kind"] == "unknown"
    assert found["last_lines"] == [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}]


def test_a_person_reads_kind_line_and_levers(capsys: Any) -> None:
    assert exit_code_of(["explain", OOM]) == 0
    out = capsys.readouterr().out
    assert out.startswith("oom_gpu_log_prob")
    assert "line 313: " in out
    assert "64 -> 32" in out
    assert exit_code_of(["explain", HEALTHY]) == 0
    assert capsys.readouterr().out == "The run made all its 40 steps; nothing in its log failed.\n"


@pytest.mark.parametrize("name", ["none.log", "."])
def test_no_such_log(capsys: Any, name: str) -> None:
    assert exit_code_of(["explain", name, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["faults"][0]["where"] == name
