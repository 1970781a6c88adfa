"""The runner: on the node that holds a trial's devices, starts its supervisor and tells what happens.

`launcher.RayLauncher` makes a Ray actor of it; nothing here needs Ray. A thread reads the attempt's
files and samples memory, so that an event's time does not depend on how often somebody asks.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.job.paths import AttemptPaths, write_atomic
from autotune.judge.event_json import event_to_json
from autotune.records import AttemptEnd, Event, Progress
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.memory_sampler import CappedWorkers, Devices, Gpus, MemorySampler
from autotune.trial.orphans import end_orphan
from autotune.trial.recorded import read_end
from autotune.trial.request import AttemptRequest
from autotune.trial.running import RunningAttempt, read_running
from autotune.trial.tails import AttemptReader

WATCH_S = 0.25
"""Between two looks at the attempt's files."""
MEMORY_S = 0.5
"""Between two samples of the devices."""
GIVE_BACK_S = 10.0
"""How long a driver may take to free the memory of ended processes."""
GIVE_BACK_GB = 0.5
"""What a device may hold more than before without being suspected."""


class Runner:
    """One attempt: `start` it once, `poll` it until an `AttemptEnd` comes, `end` it early if need be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._progress: Progress | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._sampler: MemorySampler | None = None

    def start(self, request_json: str) -> None:
        """Writes the attempt's folder and starts its supervisor; returns before verl runs.

        Raises:
            StoreError: The folder cannot be written.
        """
        request = AttemptRequest.from_json(request_json)
        paths = AttemptPaths(Path(request.folder))
        write_atomic(paths.request, request_json)
        write_atomic(paths.config, request.config_text)
        environment = node_environment()
        devices: Devices
        if request.device == "gpu":
            devices = Gpus.of_this_node(environment.get("CUDA_VISIBLE_DEVICES"))
        else:
            devices = CappedWorkers(paths.memory_caps)
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "autotune.trial.supervisor", str(paths.request)],
            env={**environment, KEY_VARIABLE: request.attempt_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        watch = threading.Thread(target=self._watch, args=(paths, devices), name="watch", daemon=True)
        watch.start()

    def poll(self) -> list[dict[str, Any]]:
        """The events since the last call as plain values; the last one ever is the attempt's end."""
        with self._lock:
            events, self._events = self._events, []
            if self._progress is not None:
                events.append(self._progress)
                self._progress = None
        if self._sampler is not None:
            events += self._sampler.take()
        # The end stays last, whatever the thread put in beside it.
        events.sort(key=lambda event: isinstance(event, AttemptEnd))
        return [event_to_json(event) for event in events]

    def end(self, reason: str) -> None:
        """Asks the supervisor to end the attempt; its end comes by `poll`. Too late is no fault."""
        if self._supervisor is not None and self._supervisor.stdin is not None:
            with suppress(OSError, ValueError):
                self._supervisor.stdin.write(f"end {reason}\n".encode())
                self._supervisor.stdin.flush()

    def _watch(self, paths: AttemptPaths, devices: Devices) -> None:
        """The thread: until the attempt's end is known, whatever happens."""
        try:
            end = self._follow(paths, devices)
        except Exception as error:  # nobody else would tell the controller
            end = end_orphan(paths)
            end = replace(end, tail=(*end.tail, f"runner: {error!r}"), lost=True)
        self._add([end])

    def _follow(self, paths: AttemptPaths, devices: Devices) -> AttemptEnd:
        running = self._wait_for_launch(paths)
        if running is None:
            return end_orphan(paths)
        reader = AttemptReader(paths, started_unix_s=running.started_unix_s)
        self._sampler = sampler = MemorySampler(devices, supervisor_pid=running.supervisor.pid)
        sample_at_s = 0.0
        while True:
            gone = self._supervisor_is_gone(WATCH_S)
            end = read_end(paths)
            at_s = time.monotonic() - running.started_monotonic_s
            if end is not None or gone:
                break
            self._add(reader.read(at_s), reader.take_progress())
            if at_s >= sample_at_s:
                sampler.sample(at_s, reader.phase)
                sample_at_s = at_s + MEMORY_S
        end = _given_back(devices, sampler, end or end_orphan(paths))
        self._add(reader.read_rest(end.at_s), reader.take_progress())
        return end

    def _wait_for_launch(self, paths: AttemptPaths) -> RunningAttempt | None:
        """What the supervisor wrote at the launch; None where it died before."""
        assert self._supervisor is not None
        self._supervisor_is_gone(None)  # it says so, or it dies
        self._supervisor.wait()  # only its first process, see `supervisor._stand_apart`
        return read_running(paths.running)

    def _supervisor_is_gone(self, wait_s: float | None) -> bool:
        """Waits for a word of the supervisor; True where its end of the pipe is closed."""
        assert self._supervisor is not None
        assert self._supervisor.stdout is not None
        ready, _, _ = select.select([self._supervisor.stdout], [], [], wait_s)
        return bool(ready) and os.read(self._supervisor.stdout.fileno(), 4096) == b""

    def _add(self, events: list[Event], progress: Progress | None = None) -> None:
        with self._lock:
            self._events += events
            if progress is not None:
                lines = self._progress.lines if self._progress else 0
                self._progress = Progress(at_s=progress.at_s, lines=lines + progress.lines)


def _given_back(devices: Devices, sampler: MemorySampler, end: AttemptEnd) -> AttemptEnd:
    """Waits until the devices hold nothing of the ended processes; says so in the end where they do."""
    pids = {process.pid for process in sampler.seen}
    deadline = time.monotonic() + GIVE_BACK_S
    while True:
        held = {name: reading.used_gb for name, reading in devices.read(pids).items()}
        held = {name: used_gb for name, used_gb in held.items() if used_gb > GIVE_BACK_GB}
        if not held:
            return end
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    lines = [f"{name} still holds {used_gb:.1f} GB after the end" for name, used_gb in held.items()]
    return replace(end, left_behind=end.left_behind or tuple(sorted(pids)), tail=(*end.tail, *lines))


def node_environment() -> dict[str, str]:
    """This process's environment, with OMP_NUM_THREADS as the node has it: Ray sets it in its workers."""
    environment = dict(os.environ)
    environment.pop("OMP_NUM_THREADS", None)
    with open("/proc/self/environ", "rb") as environ:
        for entry in environ.read().split(b"\0"):
            if entry.startswith(b"OMP_NUM_THREADS="):
                environment["OMP_NUM_THREADS"] = os.fsdecode(entry.split(b"=", 1)[1])
    return environment
