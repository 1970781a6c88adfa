"""vLLM's CPU worker, with weights that stay loadable: name `Extension` as `worker_extension_cls`.

vLLM packs the weights of linear layers for its CPU kernels when a model is loaded and drops the
originals (vllm 0.28 model_executor/layers/utils.py:269-375). verl's first weight sync then fails inside
vLLM while the trainer waits for ever; a layer that keeps its weight goes on multiplying with the stale
packed copy. Plain `torch.nn.functional.linear` reads the weight as it is.
"""

from __future__ import annotations

from typing import Any

import torch
import vllm.model_executor.layers.utils as layer_utils
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


def _multiply_plainly(layer: Any, remove_weight: bool) -> None:
    def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight, bias)

    layer.cpu_linear = linear


# Layers import the function when they are built, after the worker has imported its extension.
layer_utils.dispatch_cpu_unquantized_gemm = _multiply_plainly


class Extension(vLLMColocateWorkerExtension):  # type: ignore[misc]
    """verl's own extension; importing this module is what matters."""
