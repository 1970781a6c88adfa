"""Processes by pid and start time: who descends from whom, and ending them without a doubt.

Standard library only: the supervisor starts in milliseconds. Linux only, as verl is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, order=True)
class ProcessKey:
    """One process for good: a pid alone may be used again."""

    pid: int
    start_ticks: int
    """Clock ticks since boot, so that setting the clock changes nothing."""


@dataclass(frozen=True)
class ProcessRow:
    """One line of the process table."""

    key: ProcessKey
    parent_pid: int
    alive: bool
    """False for a zombie without living threads: it holds no memory and no device."""


def boot_id() -> str:
    """Names this boot of this machine; start ticks mean nothing after another one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def become_subreaper() -> None:
    """Orphaned descendants of this process become its children instead of init's.

    Raises:
        OSError: The kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def find_process(pid: int) -> ProcessRow | None:
    """The process that has this pid now; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            text = stat.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    threads = int(fields[17])
    return ProcessRow(
        key=ProcessKey(pid, int(fields[19])),
        parent_pid=int(fields[1]),
        # A dead leader with threads left (stuck in a driver) still holds its memory.
        alive=fields[0] not in (b"Z", b"X") or threads > 1,
    )


def is_alive(process: ProcessKey) -> bool:
    """True while this very process lives."""
    row = find_process(process.pid)
    return row is not None and row.alive and row.key == process


def process_table() -> dict[int, ProcessRow]:
    """All processes of this machine by pid."""
    rows = (find_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.key.pid: row for row in rows if row is not None}


def descendants(pid: int) -> list[ProcessKey]:
    """The living processes below `pid`, itself left out; parents come before children."""
    table = process_table()
    children: dict[int, list[ProcessRow]] = {}
    for row in table.values():
        children.setdefault(row.parent_pid, []).append(row)
    found: list[ProcessKey] = []
    parents = [pid]
    while parents:
        for row in children.get(parents.pop(), ()):
            parents.append(row.key.pid)
            if row.alive:
                found.append(row.key)
    return found


def marked(variable: str, value: str) -> list[ProcessKey]:
    """The living processes that were started with this environment variable, this one left out."""
    mark = f"{variable}={value}".encode()
    own_pid = os.getpid()
    found = []
    for pid, row in process_table().items():
        if row.alive and pid != own_pid and mark in _environ(pid):
            found.append(row.key)
    return found


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return environ.read().split(b"\0")
    except OSError:  # ended meanwhile, or somebody else's
        return []


def send_signal(process: ProcessKey, number: signal.Signals) -> bool:
    """Signals this very process; False where it is gone or not ours."""
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_all(
    find: Callable[[], Sequence[ProcessKey]], *, limit_s: float, between: Callable[[], object] = lambda: None
) -> tuple[int, ...]:
    """Kills what `find` finds until it finds nothing: children born meanwhile are found too.

    Args:
        find: The processes that have to go, looked up anew each round.
        limit_s: Seconds after which it is given up.
        between: Called after each round; a subreaper reaps here.

    Returns:
        Pids that would not go within the limit; empty is success.
    """
    deadline = time.monotonic() + limit_s
    while True:
        between()
        left = find()
        if not left:
            return ()
        if time.monotonic() > deadline:
            return tuple(process.pid for process in left)
        for process in left:
            send_signal(process, signal.SIGKILL)
        time.sleep(0.01)


def host_memory_gb(processes: Iterable[ProcessKey]) -> float:
    """Resident memory of the processes in GB (2**30 bytes).

    Each one's own pages are summed. Of the shared ones (libraries, object store) only the
    largest process's are counted, since every process of the tree maps the same.
    """
    own_pages = 0
    shared_pages = 0
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/statm", "rb") as statm:
                fields = statm.read().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        shared = int(fields[2])
        own_pages += int(fields[1]) - shared
        shared_pages = max(shared_pages, shared)
    return (own_pages + shared_pages) * _PAGE_BYTES / 2**30


def shared_memory_files(processes: Iterable[ProcessKey]) -> set[str]:
    """Names below /dev/shm that the processes have mapped and that still exist."""
    names: set[str] = set()
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/maps", encoding="utf-8", errors="replace") as maps:
                names.update(
                    line.rstrip("\n").split("/dev/shm/", 1)[1]
                    for line in maps
                    if "/dev/shm/" in line and not line.endswith(" (deleted)\n")
                )
        except OSError:
            continue
    return names
