"""Bytes that parameters, gradients and optimizer states take on one GPU under FSDP, and on its host.

Sizes follow ZeRO (Rajbhandari et al., arXiv:1910.02054, section 3.1): each is cut into as many shards as
ranks; what FSDP gathers for a layer comes on top (PyTorch FSDP, Zhao et al., arXiv:2304.11277, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.model_facts import ModelFacts

ADAM_STATES = 2
"""First and second moment, kept in the parameter's own precision (torch.optim.AdamW)."""
GATHERED_LAYERS = 2
"""The layer in use and the prefetched one (torch.distributed.fsdp BackwardPrefetch.BACKWARD_PRE and
`limit_all_gathers`, both default)."""
REDUCE_BYTES = 4
"""Gradients are reduced in fp32 (verl 0.9.1 workers/engine/fsdp/transformer_impl.py:392-399)."""


@dataclass(frozen=True, kw_only=True)
class States:
    """Bytes per GPU of one model under FSDP."""

    parameters: float
    gradients: float
    """The reduced shards, which live from the first backward pass to the optimizer step."""
    optimizer: float
    gathered: float
    """What is gathered while a layer runs: embeddings and head, and two layers."""
    layer_gradient: float
    """One layer's gradient before it is reduced: computed precision, then fp32."""
    root_gradient: float
    """The gradient of embeddings and head, unreduced until the backward pass ends."""
    step: float
    """Extra of the optimizer step: the fused Adam's denominator, one more copy of the shards."""
    largest_parameter: float
    """The largest single parameter in the kept precision, whole."""


def layer_parameters(model: ModelFacts) -> float:
    """Parameters of the heaviest layer, which is FSDP's unit (verl wraps decoder layers)."""
    mlp = max(model.dense_mlp_parameters() if model.dense_layers or not model.experts else 0, 0)
    return model.attention_parameters() + max(mlp, model.moe_layer_parameters()) + 2 * model.hidden


def root_parameters(model: ModelFacts, *, head: bool = True) -> float:
    """Parameters outside the layers: embedding and head, which FSDP's root unit holds."""
    copies = 1 if model.tie_embeddings or not head else 2
    return float(copies * model.vocab * model.hidden)


def lora_parameters(model: ModelFacts, rank: int) -> float:
    """Parameters of adapters on every linear layer (`target_modules=all-linear`)."""
    a, k = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = 2 * (model.hidden + a) + 2 * (model.hidden + k)
    mlps = 3 * (model.hidden + model.intermediate)
    if model.experts:
        mlps = 3 * (model.hidden + model.moe_intermediate) * model.experts
    return float(model.layers * rank * (attention + mlps))


def fsdp_states(model: ModelFacts, shape: EngineShape, *, head: bool = True) -> States:
    """The states of one model. `head` False: a value model, whose head is one column wide."""
    whole = float(model.parameters())
    if not head and not model.tie_embeddings:
        whole -= model.vocab * model.hidden
    trained = lora_parameters(model, shape.lora_rank) if shape.lora_rank else whole
    held = whole + (trained if shape.lora_rank else 0.0)
    root, layer = root_parameters(model, head=head), layer_parameters(model)
    # ZeRO-2 (no resharding after the forward pass) keeps all layers gathered.
    layers = GATHERED_LAYERS if shape.reshard_after_forward else model.layers
    gathered = (root + layers * layer) * shape.compute_bytes
    if shape.shards == 1 and shape.parameter_bytes == shape.compute_bytes:
        gathered = 0.0
    unreduced = 0.0 if shape.lora_rank else 1.0
    both = shape.compute_bytes + REDUCE_BYTES
    return States(
        parameters=held * shape.parameter_bytes / shape.shards,
        gradients=trained * shape.parameter_bytes / shape.shards,
        optimizer=ADAM_STATES * trained * shape.parameter_bytes / shape.shards,
        gathered=gathered,
        layer_gradient=unreduced * layer * both,
        root_gradient=unreduced * root * shape.compute_bytes,
        step=trained * shape.parameter_bytes / shape.shards,
        largest_parameter=float(model.vocab * model.hidden) * shape.parameter_bytes,
    )
