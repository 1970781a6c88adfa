"""Adaptive gradient clipping (Brock et al., arXiv:2102.06171, equation 3), before verl's own clipping.

A unit's gradient is scaled down where its norm is over `factor` times the norm of its weights: one row
of a matrix, a whole vector. verl's `optim.clip_grad` then still limits the norm over all parameters, and
`actor/grad_norm` is the norm after this clipping. It changes what is learned. FSDP2 and unsharded models
only: FSDP1 flattens parameters, so there are no units left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

ENGINE_MODULE = "verl.workers.engine.fsdp.transformer_impl"
SMALLEST_NORM = 1e-3
"""Weights are taken to be at least this long, or a unit that starts at zero could never grow."""


def turn_on(factor: float) -> None:
    """Clip in each optimizer step of the FSDP engines of this process."""

    def patch(module: Any) -> None:
        module.FSDPEngine.optimizer_step = clipping_first(module.FSDPEngine.optimizer_step, factor)

    after_import(ENGINE_MODULE, patch)


def clipping_first(step: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Wraps verl's `optimizer_step` (transformer_impl.py:788-834) with this clipping before it.

    Raises:
        ValueError: in the step, for a model whose gradients are scaled (fp16) or flattened (FSDP1).
    """

    @wraps(step)
    def clip_and_step(engine: Any) -> Any:
        if getattr(engine, "scaler", None) is not None:
            raise ValueError("extensions.adaptive_clipping: not for fp16, whose gradients are scaled")
        if hasattr(engine.module, "clip_grad_norm_"):  # FSDP1's own, over its flat parameters
            raise ValueError("extensions.adaptive_clipping: needs actor.strategy=fsdp2, not fsdp")
        clip(engine.module.parameters(), factor)
        return step(engine)

    return clip_and_step


def clip(parameters: Iterable[Any], factor: float) -> int:
    """Scales the gradients in place; returns how many units of this process were over the limit.

    Sharded parameters are split by rows, so the units of a matrix are whole in each process; the norm of
    a vector is taken over all processes.
    """
    import torch

    clipped = 0
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is None:
                continue
            limit = _unit_norms(parameter).clamp(min=SMALLEST_NORM) * factor
            norms = _unit_norms(parameter.grad)
            # NaN and Inf compare as not over: verl itself skips an update that is not finite.
            scale = torch.where(norms > limit, limit / norms.clamp(min=1e-12), torch.ones_like(norms))
            _local(parameter.grad).mul_(scale)
            clipped += int((scale < 1.0).sum())
    return clipped


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _unit_norms(tensor: Any) -> Any:
    """Norm of each row of this process's part, shaped to multiply it; of all parts for a vector."""
    import torch

    part = _local(tensor).float()
    if part.dim() > 1:
        return torch.linalg.vector_norm(part, dim=tuple(range(1, part.dim())), keepdim=True)
    norm = torch.linalg.vector_norm(tensor.float())
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm
