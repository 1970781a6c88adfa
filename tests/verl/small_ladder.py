"""A ladder of two values a stage, run by the real command: Ctrl-C, kill -9, a killed worker, and on to its end."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from autotune.job.paths import AttemptPaths, JobPaths
from autotune.records import StageName
from autotune.trial.running import RunningAttempt, read_running
from tests.verl.stories import (
    LOG_PROB,
    MICRO_BATCH,
    ROLLOUT,
    Told,
    finish,
    has_a_row,
    kill_a_worker,
    start,
    tiny_job,
    wait_until,
)

SEQUENCES = ROLLOUT + "max_num_seqs"
LR = "actor_rollout_ref.actor.optim.lr"


@dataclass(frozen=True)
class Climbed:
    """What the three runs of one command left."""

    job: Path
    paths: JobPaths
    interrupted: Told
    """After Ctrl-C in the first trial."""
    killed: RunningAttempt
    """What ran when the controller was killed, in the first trial's second attempt."""
    ended: Told
    """After the third run, which comes to the end though a worker of its quality trial is killed."""


def climb(folder: Path, tiny: Path) -> Climbed:
    """Runs the ladder in `folder`."""
    job = _small_ladder(folder, tiny)
    paths = JobPaths(folder / "results", folder.name)

    controller = start(job)
    _wait_for_ray(paths.attempt(StageName.SURVIVE, 0, 0), controller)
    os.kill(controller.pid, signal.SIGINT)
    interrupted = finish(controller, job)

    controller = start(job)
    second = paths.attempt(StageName.SURVIVE, 0, 1)
    _wait_for_ray(second, controller)
    killed = read_running(second.running)
    assert killed is not None
    os.kill(controller.pid, signal.SIGKILL)
    controller.communicate()

    controller = start(job)
    # In the last stage two sessions are warm: what is tried again need not start verl anew.
    learning = paths.attempt(StageName.QUALITY, 0, 0)
    wait_until(lambda: has_a_row(learning), controller)
    kill_a_worker(learning)
    return Climbed(job, paths, interrupted, killed, finish(controller, job))


def _small_ladder(folder: Path, tiny: Path) -> Path:
    """Two values a stage; the user's micro batch does not fit; two trials at once."""
    micro = {"kind": "categorical", "choices": [8, 64]}
    sequences = {"kind": "categorical", "choices": [4, 64]}
    lr = {"kind": "float", "low": 1.0e-4, "high": 1.0e-2, "log": True}
    stages = {
        "survive": {
            "search_space": {"name": "s", "parameters": {MICRO_BATCH: micro}},
            "steps": 3,
            "trials": 3,
        },
        "speed": {
            "search_space": {"name": "v", "parameters": {SEQUENCES: sequences}},
            "steps": 4,
            "trials": 2,
            "alone": False,
        },
        "quality": {"search_space": {"name": "q", "parameters": {LR: lr}}, "steps": 4, "trials": 1},
    }
    overrides = {MICRO_BATCH: 64, LOG_PROB: 8, SEQUENCES: 4}
    return tiny_job(
        folder, tiny, overrides, stages=stages, resources={"trials_at_once": 2, "warm_sessions": True}
    )


def _wait_for_ray(paths: AttemptPaths, controller: subprocess.Popen[str]) -> None:
    """Returns once verl of this attempt has started its private Ray."""
    wait_until(lambda: paths.console.exists() and "ray init kwargs" in paths.console.read_text(), controller)
