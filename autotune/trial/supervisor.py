"""`python -m autotune.trial.supervisor REQUEST.json`: one verl process tree, from start to proven end.

It is the tree's subreaper, so that nothing escapes by a session of its own or by a dead parent. It
stands apart from the runner that started it: when the runner dies, its standard input ends, and the
tree is ended. On standard output it says `running` once verl was started, and the runner sees it die
by the end of that pipe. Standard library only, since a trial waits for it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from autotune.job.paths import AttemptPaths, write_atomic
from autotune.records import AttemptEnd
from autotune.trial import process_tree
from autotune.trial.environment import trial_environment
from autotune.trial.process_tree import ProcessKey
from autotune.trial.request import AttemptRequest, launch_arguments
from autotune.trial.running import RunningAttempt

KILL_LIMIT_S = 30.0
"""How long processes are killed before they are reported as left behind (stuck in a driver)."""
SHARED_MEMORY_S = 2.0
"""Between two looks for new files in /dev/shm: vLLM leaves its own behind, also after a normal end."""
TAIL_LINES = 40
_TAIL_BYTES = 64 * 1024
_NOT_STARTED = 127
"""Exit code where verl's interpreter could not even be started, as a shell has it."""


class Supervisor:
    """One attempt's process tree. `run` does everything, in order."""

    def __init__(self, request: AttemptRequest) -> None:
        self._request = request
        self._paths = AttemptPaths(Path(request.folder))
        self._temp_dir = tempfile.mkdtemp(prefix="at-", dir="/tmp")  # short: Unix sockets take 107 bytes
        self._wake_fd = _signals_as_bytes()
        self._shared_memory_looked_at = _shared_memory_names()  # those are somebody else's
        self._started_s = time.monotonic()
        self._shared_memory: set[str] = set()
        self._verl: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None
        self._ended = False

    def run(self) -> AttemptEnd:
        """Starts verl, waits until it ends or has to, ends the tree and writes `end.json`."""
        self._start_verl()
        asked_by = self._wait()
        clean_up_from_s = time.monotonic()
        killed = self._terminate_verl() if asked_by else False
        left_behind = self._kill_tree()
        now_s = time.monotonic()
        end = AttemptEnd(
            at_s=now_s - self._started_s,
            exit_code=None if killed else self._exit_code,
            asked=asked_by in ("controller", "wall limit"),
            clean_up_s=now_s - clean_up_from_s,
            left_behind=left_behind,
            tail=last_lines(self._paths.console),
            lost=asked_by in ("runner gone", "orphan"),
        )
        shutil.rmtree(self._temp_dir, ignore_errors=True)
        shutil.rmtree(self._paths.session_start, ignore_errors=True)
        write_end(self._paths, end)
        return end

    def _start_verl(self) -> None:
        request = self._request
        started_unix_s = time.time()
        with open(self._paths.console, "ab") as console:
            try:
                self._verl = subprocess.Popen(
                    launch_arguments(request, self._temp_dir),
                    cwd=request.working_directory,
                    env=trial_environment(request, os.environ, self._temp_dir),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                console.write(f"could not start verl: {error}\n".encode())
                self._exit_code, self._ended = _NOT_STARTED, True
        running = RunningAttempt(
            attempt_id=request.attempt_id,
            boot_id=process_tree.boot_id(),
            supervisor=_key(os.getpid()),
            verl=_key(self._verl.pid) if self._verl else None,
            started_utc=datetime.fromtimestamp(started_unix_s, timezone.utc).isoformat(),
            started_unix_s=started_unix_s,
            started_monotonic_s=self._started_s,
            temp_dir=self._temp_dir,
        )
        write_atomic(self._paths.running, running.to_json())
        with suppress(OSError):  # the runner may be gone already; `_wait` sees that
            os.write(1, b"running\n")

    def _wait(self) -> str:
        """Until verl has ended by itself (empty) or somebody wants it to end: who."""
        limit_s = self._request.wall_limit_s
        while not self._reap():
            left_s = None if limit_s is None else self._started_s + limit_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return "wall limit"
            wait_s = SHARED_MEMORY_S if left_s is None else min(SHARED_MEMORY_S, left_s)
            ready, _, _ = select.select([0, self._wake_fd], [], [], wait_s)
            self._note_shared_memory()
            signals = os.read(self._wake_fd, 4096) if self._wake_fd in ready else b""
            if self._reap():
                break  # by itself, whoever asked in the same moment
            if signal.SIGTERM in signals:
                return "orphan"
            if 0 in ready:
                return "controller" if os.read(0, 4096) else "runner gone"
        return ""

    def _terminate_verl(self) -> bool:
        """SIGTERM to verl's driver and the grace; True where it did not go and has to be killed."""
        assert self._verl is not None  # without verl nobody is waited for, so nobody asks
        if self._reap():
            return False
        self._note_shared_memory()
        self._verl_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._request.grace_s
        while not self._reap():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return True
            ready, _, _ = select.select([self._wake_fd], [], [], left_s)
            if ready:
                os.read(self._wake_fd, 4096)
        return False

    def _verl_signal(self, number: signal.Signals) -> None:
        # Not yet reaped by us, so the pid cannot belong to another process.
        assert self._verl is not None
        os.kill(self._verl.pid, number)

    def _kill_tree(self) -> tuple[int, ...]:
        """Kills every descendant until none is left; returns the pids that would not go."""

        def find() -> list[ProcessKey]:
            self._note_shared_memory()
            return process_tree.descendants(os.getpid())

        left_behind = process_tree.end_all(find, limit_s=KILL_LIMIT_S, between=self._reap)
        for name in self._shared_memory:
            with suppress(OSError):
                Path("/dev/shm", name).unlink()
        return left_behind

    def _note_shared_memory(self) -> None:
        """Remembers which of the new files in /dev/shm this tree has mapped, while it lives to show it."""
        new = _shared_memory_names() - self._shared_memory_looked_at
        if new:
            self._shared_memory_looked_at |= new
            mapped = process_tree.shared_memory_files(process_tree.descendants(os.getpid()))
            self._shared_memory |= mapped & new

    def _reap(self) -> bool:
        """Collects every ended child, adopted ones included; returns whether verl has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._ended
            if pid == 0:
                return self._ended
            if self._verl is not None and pid == self._verl.pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
                self._ended = True


def last_lines(console: Path) -> tuple[str, ...]:
    """The last lines of a console log; empty where there is none."""
    try:
        with open(console, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(line[:500] for line in lines[-TAIL_LINES:])


def write_end(paths: AttemptPaths, end: AttemptEnd) -> None:
    """Writes `end.json`, whole or not at all."""
    write_atomic(paths.end, json.dumps(asdict(end), indent=1) + "\n")


def _key(pid: int) -> ProcessKey:
    """Of this process or of a child that was not reaped yet: both have an entry in the table."""
    row = process_tree.find_process(pid)
    assert row is not None
    return row.key


def _signals_as_bytes() -> int:
    """Makes SIGCHLD and SIGTERM readable, one byte each; returns the descriptor to read."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return read_fd


def _shared_memory_names() -> frozenset[str]:
    with suppress(FileNotFoundError):
        return frozenset(os.listdir("/dev/shm"))
    return frozenset()


def _stand_apart() -> None:
    """Leaves the runner's family, since Ray kills a worker's children when it ends a worker."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    process_tree.become_subreaper()


def _undo_ray_worker_settings() -> None:
    """Lets verl run as from a shell: a Ray worker is nice, blocks signals and dies first of memory.

    Less niceness and a lower OOM score need rights that not everybody has.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("0", encoding="ascii")


def main(arguments: list[str]) -> int:
    """Runs one supervisor; returns its exit status."""
    request = AttemptRequest.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    _stand_apart()
    _undo_ray_worker_settings()
    Supervisor(request).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
