"""Attempts of the stand-in for verl, with and without a runner over them."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from stand_in_verl import FAKE_SESSION, FAKE_VERL, RAY_ENTRY, wait_for

from autotune.job.paths import AttemptPaths
from autotune.trial import process_tree
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.request import AttemptRequest, CpuShare
from autotune.trial.running import read_running


@pytest.fixture
def make_request(tmp_path):
    """Builds a request for the stand-in; keyword arguments are its plan, `request` replaces fields."""
    (tmp_path / "fake_verl.py").write_text(FAKE_VERL)
    (tmp_path / "fake_ray_verl.py").write_text(RAY_ENTRY)
    (tmp_path / "fake_session.py").write_text(FAKE_SESSION)

    def make(request=None, **plan):
        attempt_id = uuid.uuid4().hex[:12]
        folder = tmp_path / attempt_id
        fields = {
            "attempt_id": attempt_id,
            "folder": str(folder),
            "working_directory": str(tmp_path),
            "python": sys.executable,
            "entry": "fake_verl",
            "config_text": json.dumps(plan),
            "device": "cpu",
            "cpu": CpuShare(),
            "grace_s": 5.0,
        } | (request or {})
        return AttemptRequest(**fields)

    return make


@pytest.fixture
def supervise(make_request):
    """Starts a supervisor as the runner does, waits for its launch; ends what a failed test leaves."""
    started = []

    def start(request=None, **plan):
        made = make_request(request, **plan)
        paths = AttemptPaths(Path(made.folder))
        paths.root.mkdir()
        paths.request.write_text(made.to_json())
        paths.config.write_text(made.config_text)
        process = subprocess.Popen(
            [sys.executable, "-m", "autotune.trial.supervisor", str(paths.request)],
            env={**os.environ, KEY_VARIABLE: made.attempt_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append((process, made))
        assert process.stdout.readline() == b"running\n"
        process.wait(timeout=10)
        if made.python == sys.executable and plan.get("exit") is None:
            wait_for(lambda: (paths.root / "ready").exists())
        return process, made, paths

    yield start
    for process, made in started:
        process.stdin.close()
        process.stdout.close()
        running = read_running(AttemptPaths(Path(made.folder)).running)
        wait_for(lambda running=running: running is None or not process_tree.is_alive(running.supervisor))
        process_tree.end_all(lambda made=made: process_tree.marked(KEY_VARIABLE, made.attempt_id), limit_s=5)
