"""What this machine has: GPUs through NVML, processors and memory of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pynvml

GB = 2**30
"""Bytes of one GB, as GPU makers and `nvidia-smi` count it."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU, numbered as NVML does (PCI order)."""

    index: int
    uuid: str
    name: str
    total_gb: float
    used_gb: float
    """By every process on it."""
    partitioned: bool = False
    """Multi-instance mode: its memory is that of its instances, not of one trial."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """This node without its GPUs."""

    cpu_count: int
    """Processors this process may use."""
    memory_gb: float


def gpu_inventory() -> list[Gpu]:
    """The node's GPUs in NVML's order; empty where there is no NVIDIA driver."""
    with nvml() as found:
        if not found:
            return []
        return [_gpu(index, handle) for index, handle in gpu_handles()]


def driver_version() -> str | None:
    """The NVIDIA driver's version, for provenance; None where there is none."""
    with nvml() as found:
        return as_text(pynvml.nvmlSystemGetDriverVersion()) if found else None


def host() -> Host:
    """Processors and memory of this node."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Host(cpu_count=cpus, memory_gb=psutil.virtual_memory().total / GB)


@contextmanager
def nvml() -> Iterator[bool]:
    """NVML started for the block; False where the machine has none."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        pynvml.nvmlShutdown()


def gpu_handles() -> Iterator[tuple[int, Any]]:
    """Index and NVML handle of each GPU that answers, inside `nvml()`; a lost GPU is left out."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            yield index, pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError:
            continue


def is_partitioned(handle: Any) -> bool:
    """True where the GPU is split into instances (MIG)."""
    try:
        current, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def as_text(value: str | bytes) -> str:
    """NVML's older bindings answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _gpu(index: int, handle: Any) -> Gpu:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        index=index,
        uuid=as_text(pynvml.nvmlDeviceGetUUID(handle)),
        name=as_text(pynvml.nvmlDeviceGetName(handle)),
        total_gb=memory.total / GB,
        used_gb=memory.used / GB,
        partitioned=is_partitioned(handle),
    )
