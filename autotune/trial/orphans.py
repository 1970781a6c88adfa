"""Ends what is left of an attempt whose controller or runner is gone."""

from __future__ import annotations

import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from autotune.errors import StoreError
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd
from autotune.trial import process_tree
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.process_tree import ProcessKey
from autotune.trial.recorded import read_end
from autotune.trial.request import AttemptRequest
from autotune.trial.running import RunningAttempt, read_running
from autotune.trial.supervisor import KILL_LIMIT_S, last_lines, write_end
from autotune.verl_plugin.warm.wire import read_mark

_SUPERVISOR_MARGIN_S = 5.0
"""What a supervisor may take beyond its grace and its killing before it counts as stuck."""


def end_orphan(paths: AttemptPaths) -> AttemptEnd:
    """Ends every process of the attempt, on this machine, and says how it ended.

    A supervisor that still lives does it itself. Without one, the processes are known by the mark in
    their environment and by descent. Safe to repeat: an end that is on record is returned as it is.
    """
    recorded = read_end(paths)
    if recorded is not None:
        return recorded
    running = read_running(paths.running)
    if running is not None and running.boot_id != process_tree.boot_id():
        return _record(paths, running, left_behind=(), clean_up_s=0.0)  # nothing outlives a boot
    asked_s = time.monotonic()
    grace_s = _request(paths).grace_s if paths.request.exists() else 0.0
    if running is not None and process_tree.send_signal(running.supervisor, signal.SIGTERM):
        end = _wait_for_end(paths, running.supervisor, grace_s + KILL_LIMIT_S + _SUPERVISOR_MARGIN_S)
        if end is not None:
            return end
    left_behind = process_tree.end_all(lambda: _strays(paths, running), limit_s=KILL_LIMIT_S)
    return _record(paths, running, left_behind=left_behind, clean_up_s=time.monotonic() - asked_s)


def _request(paths: AttemptPaths) -> AttemptRequest:
    return AttemptRequest.from_json(paths.request.read_text(encoding="utf-8"))


def _wait_for_end(paths: AttemptPaths, supervisor: ProcessKey, limit_s: float) -> AttemptEnd | None:
    """The end that the supervisor writes; None where it dies or takes too long over it."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        alive = process_tree.is_alive(supervisor)  # looked at first: it writes just before it exits
        end = read_end(paths)
        if end is not None or not alive:
            return end
        time.sleep(0.02)
    return None


def _strays(paths: AttemptPaths, running: RunningAttempt | None) -> list[ProcessKey]:
    """Marked processes, and those below verl or the supervisor."""
    found: set[ProcessKey] = set()
    if running is not None:  # the mark of a warm session's candidate is the session's
        found.update(process_tree.marked(KEY_VARIABLE, running.attempt_id))
    elif paths.request.exists():
        found.update(process_tree.marked(KEY_VARIABLE, _request(paths).attempt_id))
    for root in (running.supervisor, running.verl) if running else ():
        if root is not None and process_tree.is_alive(root):
            found.update([root, *process_tree.descendants(root.pid)])
    return sorted(found)


def _record(
    paths: AttemptPaths, running: RunningAttempt | None, *, left_behind: tuple[int, ...], clean_up_s: float
) -> AttemptEnd:
    """Writes the end of an attempt that nobody else could write, and removes its temporary folder."""
    age_s = max(0.0, time.time() - running.started_unix_s) if running else 0.0
    if running is not None:
        shutil.rmtree(Path(running.temp_dir), ignore_errors=True)
    mark = read_mark(paths.root)
    completed = mark is not None and mark.state == "completed"  # nobody was left to record it
    end = AttemptEnd(
        at_s=age_s,
        exit_code=0 if completed else None,
        asked=False,
        clean_up_s=clean_up_s,
        left_behind=left_behind,
        tail=last_lines(paths.console),
        lost=not completed,
    )
    if paths.root.exists():
        with suppress(StoreError):  # a full disk must not hide that the processes are gone
            write_end(paths, end)
    return end
