"""The runner: on the node that holds a trial's devices, starts its supervisor and tells what happens.

`launcher.RayLauncher` makes a Ray actor of it; nothing here needs Ray. A thread reads the attempt's
files and samples memory, so that an event's time does not depend on how often somebody asks. In a warm
session the same process runs one attempt after another, and the runner lives as long as it does.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.job.paths import AttemptPaths, write_atomic
from autotune.judge.event_json import event_to_json
from autotune.records import AttemptEnd, Event, Progress
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.hosting import Hosting, OwnProcess, SessionCandidate
from autotune.trial.memory_sampler import CappedWorkers, Devices, Gpus, MemorySampler
from autotune.trial.orphans import end_orphan
from autotune.trial.request import AttemptRequest, session_request
from autotune.trial.tails import AttemptReader
from autotune.verl_plugin.warm.wire import ask_to_stop

WATCH_S = 0.25
"""Between two looks at the attempt's files."""
MEMORY_S = 0.5
"""Between two samples of the devices."""
GIVE_BACK_S = 10.0
"""How long a driver may take to free the memory of ended processes."""
RETIRE_LIMIT_S = 60.0
"""How long the end of an idle session is waited for; its supervisor goes on with it after that."""
GIVE_BACK_GB = 0.5
"""What a device may hold more than before without being suspected."""


MOST_CANDIDATES = 64
"""A session is retired after so many; what leaks a little each time then starts anew."""
DRIFT_FRAC = 0.1
"""A session is retired when a candidate starts with this share of a device more than its second one did."""


class Runner:
    """One attempt: `start` it once, `poll` it until an `AttemptEnd` comes, `end` it early if need be.

    In a warm session `start` may follow again after that, and `retire` ends the session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._progress: Progress | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._devices: Devices | None = None
        self._sampler: MemorySampler | None = None
        self._attempt: AttemptPaths | None = None
        self._kill_at_s: float | None = None
        self._starts_frac: list[float] = []
        self._has_drifted = False

    def start(self, request_json: str, environment: Mapping[str, str] | None = None) -> None:
        """Writes the attempt's folder and starts its supervisor; returns before verl runs.

        `environment`: over the node's own; it is handed on in memory, never written.

        Raises:
            StoreError: The folder cannot be written.
        """
        request = AttemptRequest.from_json(request_json)
        self._attempt = paths = AttemptPaths(Path(request.folder))
        self._kill_at_s = None
        _write(request, paths)
        hosting: Hosting = OwnProcess(paths)
        process = request
        if request.session is not None:
            hosting = SessionCandidate(request.session, paths)
            process = session_request(request)
        if self._supervisor is None:
            if process is not request:
                _write(process, hosting.process)
            self._launch(process, hosting.process, environment or {})
        number = request.session.number if request.session else 0
        watch = threading.Thread(target=self._watch, args=(hosting, number), name="watch", daemon=True)
        watch.start()

    def _launch(self, request: AttemptRequest, paths: AttemptPaths, handed: Mapping[str, str]) -> None:
        environment = {**node_environment(), **handed}
        if request.device == "gpu":
            self._devices = Gpus.of_this_node(environment.get("CUDA_VISIBLE_DEVICES"))
        else:
            self._devices = CappedWorkers(paths.memory_caps)
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "autotune.trial.supervisor", str(paths.request)],
            env={**environment, KEY_VARIABLE: request.attempt_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

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

    def end(self, reason: str, spare_s: float | None = None) -> None:
        """Asks for the end of the attempt; it comes by `poll`. Too late is no fault.

        Args:
            reason: For the record.
            spare_s: How long a warm session may take to end the candidate between two steps and live on.
                None, or an attempt in a process of its own: the whole process tree is ended.
        """
        if spare_s is not None and self._attempt is not None and self._attempt.root.exists():
            ask_to_stop(self._attempt.root)
            self._kill_at_s = time.monotonic() + spare_s
            return
        self._end_process(reason)

    def retire(self) -> None:
        """Ends a warm session that is idle; returns when nothing of it is left."""
        self._end_process("retired")
        deadline = time.monotonic() + RETIRE_LIMIT_S
        while not self._supervisor_is_gone(WATCH_S) and time.monotonic() < deadline:
            pass

    def _end_process(self, reason: str) -> None:
        if self._supervisor is not None and self._supervisor.stdin is not None:
            with suppress(OSError, ValueError):
                self._supervisor.stdin.write(f"end {reason}\n".encode())
                self._supervisor.stdin.flush()

    def _watch(self, hosting: Hosting, number: int) -> None:
        """The thread: until the attempt's end is known, whatever happens."""
        assert self._attempt is not None
        try:
            end = self._follow(hosting, self._attempt)
            if end.session and not end.session_over:
                end = replace(end, session_over=number + 1 >= MOST_CANDIDATES or self._has_drifted)
        except Exception as error:  # nobody else would tell the controller
            self._end_process("runner's fault")
            end = end_orphan(hosting.process)
            end = replace(end, tail=(*end.tail, f"runner: {error!r}"), lost=True, session_over=True)
        self._add([end])

    def _follow(self, hosting: Hosting, paths: AttemptPaths) -> AttemptEnd:
        self._wait_for_launch()
        running = hosting.begin()
        if running is None:
            return hosting.ended_with_process()
        assert self._devices is not None
        devices = self._devices
        reader = AttemptReader(paths, started_unix_s=running.started_unix_s)
        self._sampler = sampler = MemorySampler(devices, supervisor_pid=running.supervisor.pid)
        sample_at_s = 0.0
        while True:
            gone = self._supervisor_is_gone(WATCH_S)
            end = hosting.look()
            at_s = time.monotonic() - running.started_monotonic_s
            if end is not None or gone:
                break
            if self._kill_at_s is not None and time.monotonic() > self._kill_at_s:
                self._kill_at_s = None
                self._end_process("it did not stop between two steps")
            if hosting.is_at_start():
                self._note_start(devices, sampler)
            self._add(reader.read(at_s), reader.take_progress())
            if at_s >= sample_at_s:
                sampler.sample(at_s, reader.phase)
                sample_at_s = at_s + MEMORY_S
        if end is None or not end.session:
            end = _given_back(devices, sampler, end or hosting.ended_with_process())
        self._add(reader.read_rest(end.at_s), reader.take_progress())
        return end

    def _wait_for_launch(self) -> None:
        """Until the supervisor has written of its launch, or died before."""
        assert self._supervisor is not None
        if self._supervisor.returncode is None:
            self._supervisor_is_gone(None)  # it says so, or it dies
            self._supervisor.wait()  # only its first process, see `supervisor._stand_apart`

    def _note_start(self, devices: Devices, sampler: MemorySampler) -> None:
        """Compares what is held as a candidate starts with what was held as the session's second one did.

        The first one starts before the code and buffers of a training step were ever touched.
        """
        readings = devices.read({process.pid for process in sampler.seen})
        held = [reading.used_gb / reading.capacity_gb for reading in readings.values() if reading.capacity_gb]
        start_frac = max(held, default=0.0)
        self._starts_frac.append(start_frac)
        self._has_drifted = start_frac > max(self._starts_frac[:2]) + DRIFT_FRAC

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


def _write(request: AttemptRequest, paths: AttemptPaths) -> None:
    write_atomic(paths.request, request.to_json())
    write_atomic(paths.config, request.config_text)


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
