"""A limit on what one training worker may allocate: an out-of-memory on CPU that is a real one.

The limit (RLIMIT_DATA: brk and private anonymous memory) is set when the worker's process group starts,
at the size the process has then plus the cap. Weights, optimizer state, activations and logits come
after that, as they do on a device. Torch then raises its own `DefaultCPUAllocator: can't allocate
memory` in the phase that asks for too much. vLLM and the other processes are not limited.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.verl_plugin.after_import import after_import

GB = 1024.0**3
THREAD_STACK_BYTES = 2 * 1024**2
LATER_IMPORTS = ("verl.workers.rollout.vllm_rollout",)
"""What the worker imports after its cap is set: 0.24 GB of code that no device would hold."""


@dataclass(frozen=True)
class CappedWorker:
    """What the phase marks and the trial's runner need to read a capped worker's memory."""

    pid: int
    create_time_s: float
    rank: int
    base_rss_gb: float
    """Resident memory when the cap was set; shared libraries are most of it."""
    base_data_gb: float
    cap_gb: float


def turn_on(cap_gb: float, folder: str | None) -> None:
    """Cap this process as soon as it starts a process group, and say so in `folder`."""

    def patch(distributed: Any) -> None:
        start = distributed.initialize_global_process_group_ray
        capped = False

        def start_capped(*args: Any, **kwargs: Any) -> Any:
            nonlocal capped
            result = start(*args, **kwargs)
            if not capped:  # verl calls it once for each model of the worker
                capped = True
                for name in LATER_IMPORTS:
                    with suppress(ImportError):
                        importlib.import_module(name)
                worker = cap_this_process(cap_gb, rank=int(os.environ.get("RANK", "0")))
                if folder:
                    _write(worker, Path(folder))
            return result

        distributed.initialize_global_process_group_ray = start_capped

    after_import("verl.utils.distributed", patch)


def cap_this_process(cap_gb: float, rank: int) -> CappedWorker:
    """Limit this process to its present data size plus `cap_gb`; returns the figures at this moment.

    Raises:
        ValueError: the hard limit of the process is lower than that.
    """
    import psutil

    _start_threads_with_small_stacks()
    status = _status_bytes()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (int(status["VmData"] + cap_gb * GB), hard))
    return CappedWorker(
        pid=os.getpid(),
        create_time_s=psutil.Process().create_time(),
        rank=rank,
        base_rss_gb=status["VmRSS"] / GB,
        base_data_gb=status["VmData"] / GB,
        cap_gb=cap_gb,
    )


def _start_threads_with_small_stacks() -> None:
    """Every new thread's stack counts as data, 8 MB by default and hardly used: it would eat the cap."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "pthread_setattr_default_np"):  # not glibc
        return
    attributes = ctypes.create_string_buffer(256)  # pthread_attr_t has 56 bytes on x86-64, 64 on arm64
    if libc.pthread_attr_init(attributes) == 0:
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(THREAD_STACK_BYTES))
        libc.pthread_setattr_default_np(attributes)


def _status_bytes() -> dict[str, int]:
    sizes: dict[str, int] = {}
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            name, _, rest = line.partition(":")
            if rest.endswith("kB\n"):
                sizes[name] = int(rest.split()[0]) * 1024
    return sizes


def _write(worker: CappedWorker, folder: Path) -> None:
    """Write the worker's file at once or not at all: another process reads it at any moment."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"rank-{worker.rank}-{worker.pid}.json"
    part = target.with_suffix(".part")
    part.write_text(json.dumps(asdict(worker)), encoding="utf-8")
    os.replace(part, target)
