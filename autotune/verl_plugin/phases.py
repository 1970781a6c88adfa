"""Says when each part of a training step begins and ends, and how much memory it took.

verl times the parts of a step with `marked_timer` (verl 0.9.1 trainer/ppo/v1/trainer_base.py:473-609,
imported from `verl.utils.debug`, which re-exports `verl.utils.profiler`). Each begin and end appends one
JSON line. Where workers are capped (CPU), the kernel's own high-water mark of resident memory gives the
peak of a part: it is reset at a begin and read at an end. The cap counts allocated memory, so what is
allocated but not resident is added; a worker at 1.0 of its cap is one byte from its out-of-memory.
Nothing here may ever stop a training: errors of the operating system are swallowed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from autotune.verl_plugin.after_import import after_import

GB = 1024.0**3
PROFILER_MODULES = ("verl.utils.profiler", "verl.utils.debug")

Timer = Callable[..., AbstractContextManager[None]]

_turned_on: list[PhaseMarks] = []
"""Those of this process: none or one."""


def turn_on(path: str, caps_folder: str | None) -> None:
    """Wrap verl's timers in this process; only the trainer's process uses them."""
    marks = PhaseMarks(path, caps_folder)
    _turned_on.append(marks)

    def patch(module: Any) -> None:
        # `verl.utils.debug` copies the name, and may do so before or after the original was wrapped.
        if not getattr(module.marked_timer, "marks_phases", False):
            module.marked_timer = marks.around(module.marked_timer)

    for name in PROFILER_MODULES:
        after_import(name, patch)


def write_to(path: str) -> None:
    """Further marks of this process go to `path`: a warm session's next candidate has its own file."""
    for marks in _turned_on:
        marks.path = path


@dataclass
class _CappedWorker:
    pid: int
    rank: int
    base_data_gb: float
    cap_gb: float


@dataclass
class PhaseMarks:
    """Appends the marks of one process to `path`; knows the capped workers from `caps_folder`."""

    path: str
    caps_folder: str | None = None
    _workers: dict[str, _CappedWorker] = field(default_factory=dict)
    _open_peaks_gb: list[dict[int, float]] = field(default_factory=list)
    """For each timer that runs now (they nest), each pid's peak since that timer's begin."""

    def around(self, timer: Timer) -> Timer:
        """The same timer, with marks."""

        @contextmanager
        def marking_timer(
            name: str, timing_raw: dict[str, float], *args: Any, **kwargs: Any
        ) -> Iterator[None]:
            self.begin(name)
            try:
                with timer(name, timing_raw, *args, **kwargs):
                    yield
            finally:
                self.end(name)

        marking_timer.marks_phases = True  # type: ignore[attr-defined]
        return marking_timer

    def begin(self, name: str) -> None:
        """Mark a begin and start a new peak."""
        self._find_workers()
        self._fold_peaks()
        self._open_peaks_gb.append({})
        self._append(name, begin=True, peaks_gb={})

    def end(self, name: str) -> None:
        """Mark an end, with each capped worker's peak growth since the begin."""
        self._fold_peaks()
        peaks_gb = self._open_peaks_gb.pop() if self._open_peaks_gb else {}
        self._append(name, begin=False, peaks_gb=peaks_gb)

    def _find_workers(self) -> None:
        """Read the files of workers that were capped since the last look."""
        if self.caps_folder is None:
            return
        with suppress(OSError, ValueError, KeyError):
            for name in os.listdir(self.caps_folder):
                if name.endswith(".json") and name not in self._workers:
                    with open(os.path.join(self.caps_folder, name), encoding="utf-8") as file:
                        found = json.load(file)
                    self._workers[name] = _CappedWorker(
                        found["pid"], found["rank"], found["base_data_gb"], found["cap_gb"]
                    )

    def _fold_peaks(self) -> None:
        """Hand the peaks since the last reset to every open timer, and reset them.

        The reset would else hide an outer timer's peak that came before an inner timer's begin.
        """
        for worker in self._workers.values():
            with suppress(OSError, ValueError, KeyError):
                peak_gb = _peak_data_gb(worker.pid) - worker.base_data_gb
                for peaks_gb in self._open_peaks_gb:
                    peaks_gb[worker.pid] = max(peaks_gb.get(worker.pid, 0.0), peak_gb)
                _reset_high_water(worker.pid)

    def _append(self, name: str, *, begin: bool, peaks_gb: dict[int, float]) -> None:
        workers = [
            {"rank": worker.rank, "used_gb": round(peaks_gb[worker.pid], 6), "cap_gb": worker.cap_gb}
            for worker in self._workers.values()
            if worker.pid in peaks_gb
        ]
        line = json.dumps({"phase_timer": name, "begin": begin, "time_s": time.time(), "workers": workers})
        with suppress(OSError), open(self.path, "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")  # one write: a reader never sees half a line


def _peak_data_gb(pid: int) -> float:
    """The largest data size since the last reset: today's, plus what was resident at the peak and is freed.

    The kernel keeps a high-water mark of resident memory (VmHWM) but none of the data size (VmData).
    """
    sizes_kb: dict[str, int] = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(("VmData:", "VmHWM:", "VmRSS:")):
                name, size, _ = line.split()
                sizes_kb[name] = int(size)
    freed_kb = max(0, sizes_kb["VmHWM:"] - sizes_kb["VmRSS:"])
    return (sizes_kb["VmData:"] + freed_kb) * 1024 / GB


def _reset_high_water(pid: int) -> None:
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as clear_refs:
        clear_refs.write("5")
