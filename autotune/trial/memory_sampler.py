"""Memory of one attempt's process tree while it runs: each device's peak since the last question.

On GPUs NVML says what the trial's own processes hold. On CPU a capped training worker stands for a
device: what it holds beyond its size at the cap, against the cap. The plugin's phase marks carry the
exact peak of a phase that ended; the samples here show the phase that has not, or never does.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.forecast.device_memory import DeviceMemory
from autotune.forecast.hardware import gpu_inventory
from autotune.records import MemorySample
from autotune.trial import process_tree

GB = 2**30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Reading:
    """One device at one moment."""

    used_gb: float
    capacity_gb: float
    """0 where unknown."""


class Devices(Protocol):
    """What stands for the devices of a trial."""

    def read(self, pids: set[int]) -> Mapping[str, Reading]:
        """What these processes hold now, by device name; devices that they do not use may be left out."""
        ...


class CappedWorkers:
    """The CPU workers that the plugin has capped, found by the files it writes for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, pids: set[int]) -> Mapping[str, Reading]:
        """Resident memory of the living workers beyond their size at the cap."""
        readings: dict[str, Reading] = {}
        for file in sorted(self._folder.glob("rank-*.json")):
            try:
                worker = json.loads(file.read_text(encoding="utf-8"))
                pid = int(worker["pid"])
                if pid in pids:
                    used_gb = max(0.0, _resident_gb(pid) - worker["base_rss_gb"])
                    readings[f"rank:{worker['rank']}"] = Reading(used_gb, worker["cap_gb"])
            except (OSError, ValueError, KeyError):  # it ended meanwhile, or the file is not the plugin's
                continue
        return readings


class NodeMemory(Protocol):
    """What is needed of `forecast.device_memory.DeviceMemory`; GPUs are named by UUID."""

    def capacity_gb_by_gpu(self) -> dict[str, float]:
        """Whole memory of each GPU."""
        ...

    def used_gb_by_gpu(self, pids: Iterable[int]) -> dict[str, float]:
        """What the processes hold on each GPU that they use."""
        ...

    def used_gb_in_all(self) -> dict[str, float]:
        """What anybody holds on each GPU."""
        ...


class Gpus:
    """A trial's own GPUs by NVML.

    In a container with process ids of its own NVML's pids are strangers to us. As long as it knows
    none of ours, what the trial's GPUs hold beyond their level at the start is taken for the trial's.
    """

    def __init__(self, memory: NodeMemory, names: Mapping[str, str]) -> None:
        """`names`: UUID to name of the GPUs that the trial sees."""
        self._memory = memory
        self._names = names
        self._capacity_gb = memory.capacity_gb_by_gpu()
        self._before_gb = memory.used_gb_in_all()
        self._pids_are_known = False

    @classmethod
    def of_this_node(cls, visible: str | None) -> Gpus:
        """The GPUs that CUDA_VISIBLE_DEVICES names, by index or UUID; None: all."""
        wanted = None if visible is None else {name for name in visible.split(",") if name}
        return cls(
            DeviceMemory(),
            {
                gpu.uuid: f"gpu:{gpu.index}"
                for gpu in gpu_inventory()
                if wanted is None or str(gpu.index) in wanted or gpu.uuid in wanted
            },
        )

    def read(self, pids: set[int]) -> Mapping[str, Reading]:
        """Memory of the processes on each GPU, by `gpu:<index>`."""
        used_gb = self._memory.used_gb_by_gpu(pids)
        self._pids_are_known = self._pids_are_known or bool(used_gb)
        if not self._pids_are_known:
            used_gb = {
                uuid: max(0.0, held_gb - self._before_gb.get(uuid, 0.0))
                for uuid, held_gb in self._memory.used_gb_in_all().items()
            }
        return {
            self._names[uuid]: Reading(used, self._capacity_gb.get(uuid, 0.0))
            for uuid, used in used_gb.items()
            if uuid in self._names
        }


class MemorySampler:
    """Folds readings into the peak of each device and phase since the last `take`.

    One thread samples while another takes.
    """

    def __init__(self, devices: Devices, *, supervisor_pid: int) -> None:
        self._devices = devices
        self._supervisor_pid = supervisor_pid
        self._lock = threading.Lock()
        self._peaks: dict[tuple[str, str], MemorySample] = {}
        self.seen: set[process_tree.ProcessKey] = set()
        """Every process of the tree that was ever seen."""

    def sample(self, at_s: float, phase: str) -> None:
        """Reads all devices now; what they hold counts for `phase`."""
        processes = process_tree.descendants(self._supervisor_pid)
        self.seen.update(processes)
        host_gb = process_tree.host_memory_gb(processes)
        readings = self._devices.read({process.pid for process in processes})
        with self._lock:
            for device, reading in readings.items():
                before = self._peaks.get((device, phase))
                if before is None or reading.used_gb >= before.used_gb:
                    self._peaks[device, phase] = MemorySample(
                        at_s=at_s,
                        phase=phase,
                        device=device,
                        used_gb=reading.used_gb,
                        capacity_gb=reading.capacity_gb,
                        host_gb=max(host_gb, before.host_gb if before else 0.0),
                    )

    def take(self) -> list[MemorySample]:
        """The peaks since the last call, in the order of their times."""
        with self._lock:
            peaks, self._peaks = self._peaks, {}
        return sorted(peaks.values(), key=lambda sample: sample.at_s)


def _resident_gb(pid: int) -> float:
    with open(f"/proc/{pid}/statm", "rb") as statm:
        return int(statm.read().split()[1]) * _PAGE_BYTES / GB
