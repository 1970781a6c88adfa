"""verl's view of a machine without an accelerator: one CPU rank is one device called `cpu`.

Imports verl, so `cpu_platform` imports it only when asked.
"""
# ruff: noqa: D102 - torch.cuda and verl's PlatformBase document these methods.

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase


class CPUDeviceModule(ModuleType):
    """`torch.cpu` with what verl asks of `torch.cuda` and `torch.cpu` lacks.

    engine_workers.py:219-221, utils/memory_utils.py:47, bucketed_weight_transfer.py:221.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> str:
        return "cpu"

    def set_device(self, device: Any) -> None:
        pass

    def synchronize(self, *_: Any, **__: Any) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def ipc_collect(self) -> None:
        pass

    def memory_allocated(self, *_: Any) -> int:
        return 0

    def memory_reserved(self, *_: Any) -> int:
        return 0

    def max_memory_reserved(self, *_: Any) -> int:
        return 0

    def reset_peak_memory_stats(self, *_: Any) -> None:
        pass

    def max_memory_allocated(self, *_: Any) -> int:
        """Peak resident bytes of this process."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        """Free and total bytes of the host."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_rng_state(self, *_: Any) -> Any:
        return torch.get_rng_state()

    def set_rng_state(self, state: Any, *_: Any) -> None:
        torch.set_rng_state(state)

    def get_device_name(self, *_: Any) -> str:
        # The only CPU name that verl's FLOPS table knows (utils/flops_counter.py).
        return "CPU"


_DEVICE_MODULE = CPUDeviceModule("autotune_cpu_device")


class PlatformCPU(PlatformBase):  # type: ignore[misc]
    """What verl asks of a platform (plugin/platform/platform_base.py)."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _DEVICE_MODULE)

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        # verl moves tensors `.to(get_device_id())`; the usual 0 would mean an accelerator
        # (workers/engine/fsdp/transformer_impl.py:730,1552).
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        # verl counts "GPU" or "NPU" only (single_controller/ray/base.py:229-241).
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        # Weights then travel through shared memory (bucketed_weight_transfer.py:186-200).
        return False

    def cudart(self) -> None:
        return None
