"""Imports go one way, and what only thinks never loads an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINES = ("ray", "optuna", "sqlalchemy", "torch", "verl", "vllm", "transformers", "hydra")


def test_the_contracts_of_pyproject_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("modules", "loaded"),
    [
        ("autotune.judge.verdict autotune.judge.guards autotune.judge.log_reader", ()),
        ("autotune.ladder.strategy autotune.ladder.plan", ()),
        ("autotune.job.loading", ()),
        # The command itself: Ray, torch and verl are seconds that `autotune status` must not pay for.
        ("autotune.cli.app", ("optuna", "sqlalchemy", "hydra")),
    ],
)
def test_what_only_thinks_loads_no_engine(modules: str, loaded: tuple[str, ...]) -> None:
    program = (
        f"import importlib, sys\n[importlib.import_module(name) for name in {modules.split()!r}]\n"
        f"print(*[name for name in {ENGINES!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= set(loaded)
