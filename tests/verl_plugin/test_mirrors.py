"""The user's trackers beside a trial: opened one by one, left out when they fail or are slow."""

import importlib.util
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from autotune.verl_plugin import mirrors
from autotune.verl_plugin.mirrors import Mirror


class Backend:
    """Keeps what it is given; `fails` names the calls that raise."""

    def __init__(self, *fails):
        self.fails = fails
        self.given = []

    def log(self, data, step):
        self.given.append(("log", data, step))
        if "log" in self.fails:
            raise ConnectionError("no route\nto host")

    def finish(self, exit_code=0):
        self.given.append(("finish", exit_code))
        if "finish" in self.fails:
            raise ConnectionError("gone")


def tracking_module(monkeypatch, *broken):
    """A module as verl's: its class opens every backend at once, and closes them when it is forgotten."""

    class Tracking:
        def __init__(self, project_name, experiment_name, default_backend="console", config=None):
            self._finished = True
            asked = [default_backend] if isinstance(default_backend, str) else default_backend
            for name in asked:
                if name in broken:
                    raise RuntimeError(f"{name}: api_key not configured")
            self.logger = {name: Backend() for name in asked}
            self.opened = (project_name, experiment_name, config)
            self._finished = False

        def finish(self, exit_code=0):
            if not self._finished:
                self._finished = True
                for backend in self.logger.values():
                    backend.finish(exit_code=exit_code)

        def __del__(self):
            self.finish()

    module = types.ModuleType(mirrors.TRACKING_MODULE)
    module.Tracking = Tracking
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_mirrors_come_after_the_trials_own_loggers(monkeypatch, capsys):
    module = tracking_module(monkeypatch)
    mirrors.turn_on(["tensorboard"])
    tracking = module.Tracking("p", "e", ["tensorboard", "console"], {"a": 1})
    assert list(tracking.logger) == ["console", "tensorboard"]
    assert tracking.opened == ("p", "e", {"a": 1})
    assert isinstance(tracking.logger["console"], Backend)
    tracking.logger["tensorboard"].log(data={"x": 1.0}, step=2)
    tracking.finish(exit_code=3)
    assert tracking.logger["tensorboard"]._backend.given == [("log", {"x": 1.0}, 2), ("finish", 3)]
    assert capsys.readouterr().out == ""


def test_one_that_cannot_be_opened_is_said_and_left_out(monkeypatch, capsys):
    module = tracking_module(monkeypatch, "wandb")
    mirrors.turn_on(["wandb", "tensorboard"])
    tracking = module.Tracking("p", "e", default_backend=["console", "wandb", "tensorboard"])
    assert list(tracking.logger) == ["console", "tensorboard"]
    assert capsys.readouterr().out == (
        "autotune mirror wandb: it could not be opened: RuntimeError: wandb: api_key not configured\n"
    )


def test_one_that_was_waited_for_in_vain_is_not_tried_again(monkeypatch, capsys):
    monkeypatch.setattr(mirrors, "_given_up", set())
    module = tracking_module(monkeypatch, "wandb")
    times = iter([0.0, 30.0])
    module.Tracking.__init__ = mirrors.opening_one_by_one(
        module.Tracking.__init__, ["wandb"], now_s=lambda: next(times)
    )
    for _ in range(2):
        assert list(module.Tracking("p", "e", ["console", "wandb"]).logger) == ["console"]
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_trials_own_loggers_still_fail_aloud(monkeypatch):
    module = tracking_module(monkeypatch, "file")
    mirrors.turn_on(["wandb"])
    with pytest.raises(RuntimeError, match="file"):
        module.Tracking("p", "e", ["file", "wandb"])
    assert list(module.Tracking("p", "e").logger) == ["console"]


@pytest.mark.parametrize("backend", [Backend("log"), Backend()], ids=["failing", "slow"])
def test_one_that_fails_or_is_slow_is_given_no_more_and_closed(capsys, backend):
    times = iter([0.0, 11.0])
    mirror = Mirror("wandb", backend, now_s=lambda: next(times), slow_s=10.0)
    for step in (1, 2):
        mirror.log(data={}, step=step)
    mirror.finish(exit_code=0)
    assert backend.given == [("log", {}, 1), ("finish", 0)]
    (line,) = capsys.readouterr().out.splitlines()
    assert line in (
        "autotune mirror wandb: ConnectionError: no route to host; no more of this run is sent there",
        "autotune mirror wandb: one step's metrics took 11 s; no more of this run is sent there",
    )


def test_one_that_cannot_be_closed_is_said(capsys):
    Mirror("mlflow", Backend("finish")).finish()
    assert "autotune mirror mlflow: it could not be closed: ConnectionError: gone" in capsys.readouterr().out


def test_one_whose_uploads_do_not_end_is_left_to_itself_and_not_opened_again(monkeypatch, capsys):
    monkeypatch.setattr(mirrors, "_given_up", set())
    module = tracking_module(monkeypatch)
    mirrors.turn_on(["wandb"])
    server_is_back = threading.Event()
    backend = module.Tracking("p", "e", ["wandb"]).logger["wandb"]._backend
    backend.finish = lambda: server_is_back.wait(10)
    Mirror("wandb", backend, close_s=0.01).finish()
    assert "autotune mirror wandb: not closed after 0.01 s" in capsys.readouterr().out
    assert list(module.Tracking("p", "e", ["console", "wandb"]).logger) == ["console"]
    server_is_back.set()


TWO_CANDIDATES = """
import os, sys
from verl.utils.tracking import Tracking
for name, reward in (("first", 0.25), ("second", 0.75)):
    os.environ["TENSORBOARD_DIR"] = f"{sys.argv[1]}/{name}"
    tracking = Tracking("p", f"j/{name}", ["console", "tensorboard"], {"trainer": {}})
    for step in (1, 2):
        tracking.log(data={"critic/rewards/mean": reward * step}, step=step)
    tracking.finish(exit_code=0)
"""


@pytest.mark.verl
@pytest.mark.timeout(300)
@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_verls_own_tracking_writes_a_tensorboard_folder_for_each_candidate(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "VERL_USE_EXTERNAL_MODULES": "autotune.verl_plugin.register",
        "AUTOTUNE_MIRRORS": "tensorboard",
    }
    command = [sys.executable, "-c", TWO_CANDIDATES, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "autotune mirror" not in done.stdout
    for name, reward in (("first", 0.25), ("second", 0.75)):
        folder: Path = tmp_path / name
        events = EventAccumulator(str(folder)).Reload()
        scalars = events.Scalars("critic/rewards/mean")
        assert [(s.step, s.value) for s in scalars] == [(1, reward), (2, 2 * reward)]
