"""Small jobs that go wrong in one way each, run by the real command on real verl."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autotune.job.paths import AttemptPaths, JobPaths
from autotune.records import Event, GuardStop, LogEvidence, StageName
from autotune.store.store import Store
from autotune.store.stored import StoredAttempt, StoredTrial
from autotune.trial.process_tree import descendants
from autotune.trial.running import read_running
from benchmarks.tiny import FAST, ROOT
from benchmarks.tiny import tiny_job as shipped_tiny_job

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."
MICRO_BATCH = ACTOR + "ppo_micro_batch_size_per_gpu"
LOG_PROB = ROLLOUT + "log_prob_micro_batch_size_per_gpu"
REFERENCE = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
COMMAND_LIMIT_S = 1500.0
SECRET = "not-to-be-written"
"""Value of a variable in a story's job file."""


@dataclass(frozen=True)
class Told:
    """What a command left behind."""

    exit_code: int
    output: str
    trials: list[StoredTrial]
    attempts: list[StoredAttempt]
    events: list[Event]
    """Of the first attempt."""
    folder: Path


def tiny_job(folder: Path, tiny: Path, overrides: dict[str, Any] | None = None, **sections: Any) -> Path:
    """The shipped tiny job with `overrides` over verl's and one survive trial; written to `folder`."""
    job = shipped_tiny_job(folder, folder.name, data=tiny)
    job["verl"]["overrides"].update({**FAST, **(overrides or {})})
    survive = {"search_space": "survive_tiny_cpu", "steps": 3, "trials": 1, "seed": 1, "certificate": None}
    job["stages"] = {"survive": survive}
    job["resources"]["warm_sessions"] = False  # one trial each: the whole tree ends with it
    for name, section in sections.items():
        job[name] = {**job.get(name, {}), **section}
    path = folder / "job.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(job))
    return path


def start(job_file: Path, *more: str) -> subprocess.Popen[str]:
    """`autotune run` in a process group of its own."""
    command = [sys.executable, "-m", "autotune", "run", str(job_file), *more]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], job_file: Path) -> Told:
    """Waits for the command and reads its database."""
    try:
        output, _ = process.communicate(timeout=COMMAND_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"{job_file} took over {COMMAND_LIMIT_S:.0f} s:\n{output}") from None
    return read(process.returncode, output, job_file)


def read(exit_code: int, output: str, job_file: Path) -> Told:
    """What the database of a job holds."""
    folder = job_file.parent
    paths = JobPaths(folder / "results", folder.name)
    with Store.read(f"sqlite:///{paths.database}") as store:
        trials = store.trials()
        attempts = [attempt for trial in trials for attempt in store.attempts(trial.id)]
        events = store.events(attempts[0].attempt_id) if attempts else []
    return Told(exit_code, output, trials, attempts, events, folder)


def run(job_file: Path, meddle: Callable[[AttemptPaths], None] | None = None) -> Told:
    """Runs the job; `meddle` is called once, while its first attempt is training."""
    process = start(job_file)
    if meddle is not None:
        folder = job_file.parent
        paths = JobPaths(folder / "results", folder.name).attempt(StageName.SURVIVE, 0, 0)
        wait_until(lambda: has_a_row(paths), process)
        meddle(paths)
    return finish(process, job_file)


def has_a_row(paths: AttemptPaths) -> bool:
    """Whether the attempt has come through its first step."""
    return paths.metrics.exists() and paths.metrics.stat().st_size > 0


def wait_until(
    holds: Callable[[], bool], process: subprocess.Popen[str], limit_s: float = COMMAND_LIMIT_S
) -> None:
    """Returns once `holds`; fails when the command ends or takes too long first."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert process.poll() is None, f"the command ended first:\n{process.communicate()[0]}"
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def processes_named(paths: AttemptPaths, part: str) -> list[int]:
    """Pids below the attempt's supervisor whose command line has `part`."""
    running = read_running(paths.running)
    assert running is not None
    found = []
    for key in descendants(running.supervisor.pid):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{key.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if part in line:
                found.append(key.pid)
    return found


def stop_the_engine(paths: AttemptPaths) -> None:
    """The rollout engine stands still, and nobody says a word: a silent hang."""
    pids = processes_named(paths, "EngineCore")
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def kill_a_worker(paths: AttemptPaths) -> None:
    """As the kernel's OOM killer would."""
    pids = processes_named(paths, "ray::WorkerDict")
    assert pids
    os.kill(pids[0], signal.SIGKILL)


def write_reward(folder: Path, body: str) -> dict[str, Any]:
    """A reward file with this body; returns the override that names it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "reward.py"
    path.write_text(
        f"def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    {body}\n"
    )
    return {"reward.custom_reward_function.path": str(path)}


def times_of(story: Told) -> str:
    """Seconds from the first sign of trouble to the decision, and to the end of every process."""
    end = story.attempts[0].end
    assert end is not None
    stop = next((event for event in story.events if isinstance(event, GuardStop)), None)
    if stop is not None:
        decided = f"guard {stop.kind} at {stop.at_s:.1f} s"
        return f"{decided}, ended and swept in {end.clean_up_s:.1f} s"
    signs = [event.at_s for event in story.events if isinstance(event, LogEvidence)]
    if not signs:
        return "no sign"
    later_s = end.at_s - signs[0] + end.clean_up_s
    return f"decisive line at {signs[0]:.1f} s, verl gone and swept {later_s:.1f} s later"
