"""GPU memory of given processes, through NVML: what a trial holds, and whether it has given it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pynvml

from autotune.forecast.hardware import GB, as_text, gpu_handles, is_partitioned


@dataclass(frozen=True)
class _Device:
    uuid: str
    handle: Any
    capacity_gb: float


class DeviceMemory:
    """Open NVML session of one node. A context manager; without NVML it answers with nothing.

    GPUs are named by UUID. Partitioned ones (MIG) are left out: NVML tells their processes only by
    instance, so a figure for the whole GPU would be wrong; `left_out` names them.
    """

    def __init__(self) -> None:
        self.left_out: tuple[str, ...] = ()
        self._devices: dict[str, _Device] = {}
        self._open = False
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        self._open = True
        for _index, handle in gpu_handles():
            uuid = as_text(pynvml.nvmlDeviceGetUUID(handle))
            if is_partitioned(handle):
                self.left_out += (uuid,)
                continue
            capacity_gb = pynvml.nvmlDeviceGetMemoryInfo(handle).total / GB
            self._devices[uuid] = _Device(uuid, handle, capacity_gb)

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the NVML session; afterwards every answer is empty."""
        if self._open:
            self._open = False
            self._devices.clear()
            pynvml.nvmlShutdown()

    def capacity_gb_by_gpu(self) -> dict[str, float]:
        """Whole memory of each GPU, by UUID."""
        return {device.uuid: device.capacity_gb for device in self._devices.values()}

    def used_gb_by_gpu(self, pids: Iterable[int]) -> dict[str, float]:
        """Memory of the given processes on each GPU that they use, by UUID.

        A process whose memory NVML does not tell (N/A in containers and under WDDM) makes its GPU
        answer with the memory in use by all processes there, an upper bound.
        """
        wanted = frozenset(pids)
        used: dict[str, float] = {}
        for device in self._devices.values():
            try:
                memories = [process.usedGpuMemory for process in _processes(device) if process.pid in wanted]
                if None in memories:
                    used[device.uuid] = pynvml.nvmlDeviceGetMemoryInfo(device.handle).used / GB
                elif memories:
                    used[device.uuid] = sum(memories) / GB
            except pynvml.NVMLError:
                continue
        return used

    def used_gb_in_all(self) -> dict[str, float]:
        """Memory in use on each GPU by whatever process, by UUID; a GPU that does not answer is left out."""
        used: dict[str, float] = {}
        for device in self._devices.values():
            try:
                used[device.uuid] = pynvml.nvmlDeviceGetMemoryInfo(device.handle).used / GB
            except pynvml.NVMLError:
                continue
        return used

    def free_of(self, pids: Iterable[int]) -> bool:
        """True where none of the given processes holds a GPU any more; also without NVML."""
        wanted = frozenset(pids)
        return not any(
            process.pid in wanted for device in self._devices.values() for process in _processes(device)
        )


def _processes(device: _Device) -> list[Any]:
    """NVML's records of the processes that compute on the device; none where the driver does not say."""
    try:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses(device.handle))
    except pynvml.NVMLError:
        return []
