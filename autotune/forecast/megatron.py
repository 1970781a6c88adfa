"""Bytes of parameters, gradients, optimizer and activations on one GPU under Megatron-Core.

Parameters are cut by tensor and pipeline parallelism, experts by expert parallelism; gradients are
accumulated in fp32; the distributed optimizer cuts masters and moments over the data-parallel ranks
(Narayanan et al., arXiv:2104.04473; Megatron-Core docs, dist_optimizer: 18 bytes a parameter whole,
6 + 12 / d with bf16 parameters and fp32 gradients). Activations: Korthikanti et al. (arXiv:2205.05198),
equation 4: with sequence parallelism everything is cut by the tensor-parallel size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.forecast import activations
from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.states import lora_parameters

_PARAMETER_BYTES = 2
_GRADIENT_BYTES = 4
_OPTIMIZER_BYTES = 12
"""fp32 master, first and second moment."""
MASTERS_FRAC = 4 / _OPTIMIZER_BYTES
"""Of the optimizer: the fp32 masters, which are there before the first step makes the moments."""
_LOSS_BYTES = 4 + 2
"""Per word of the vocabulary-parallel loss: the fp32 copy of the bf16 logits, which becomes softmax and
gradient in place, and the bf16 gradient (Megatron-Core tensor_parallel/cross_entropy.py)."""


@dataclass(frozen=True, kw_only=True)
class MegatronStates:
    """Bytes per GPU of one model, on the heaviest pipeline stage."""

    parameters: float
    gradients: float
    optimizer: float


@dataclass(frozen=True, kw_only=True)
class MegatronActivations:
    """Bytes per GPU of a micro batch's activations."""

    kept: float
    """Of all micro batches in flight on the first stage."""
    recomputed: float
    """One layer's, brought back by full recomputation, or its gradients."""
    logits: float


def stage_layers(model: ModelFacts, shape: EngineShape) -> int:
    """Layers of the heaviest pipeline stage."""
    return math.ceil(model.layers / shape.pipeline_parallel)


def megatron_states(model: ModelFacts, shape: EngineShape) -> MegatronStates:
    """Of the heaviest stage: its share of the layers and one of embedding and head."""
    share = stage_layers(model, shape) / model.layers
    experts = _expert_parameters(model) * share
    embedding = model.vocab * model.hidden
    copies = 1 if model.tie_embeddings or shape.pipeline_parallel > 1 else 2
    all_embeddings = embedding * (1 if model.tie_embeddings else 2)
    layers = model.parameters() - all_embeddings - _expert_parameters(model)
    dense = (layers * share + copies * embedding) / shape.tensor_parallel
    routed = experts / (shape.expert_parallel * shape.expert_tensor_parallel)
    trained_dense, trained_routed = dense, routed
    if shape.lora_rank:
        trained_dense = lora_parameters(model, shape.lora_rank) * share / shape.tensor_parallel
        trained_routed = 0.0
    # Expert parameters are replicated over fewer ranks than dense ones.
    ways = shape.expert_parallel * shape.expert_tensor_parallel * shape.pipeline_parallel
    expert_ranks = max(1, shape.gpus // ways)
    ranks = shape.data_parallel * shape.context_parallel
    on_gpu = 0.0 if shape.optimizer_on_cpu else _OPTIMIZER_BYTES
    return MegatronStates(
        parameters=(dense + routed) * _PARAMETER_BYTES,
        gradients=(trained_dense + trained_routed) * _GRADIENT_BYTES,
        optimizer=on_gpu * (trained_dense / ranks + trained_routed / expert_ranks),
    )


def layer_bytes(model: ModelFacts) -> float:
    """Bytes per token that one layer keeps with Transformer Engine's fused modules.

    Norms keep their bf16 input and output (4h each); flash attention query, key, value and output; the
    fused SwiGLU its input 4f and output 2f; a routed expert also its token's input 2h. Equation 1 of
    Korthikanti et al. with gated MLP, grouped queries and no dropout.
    """
    h = model.hidden
    queries, keys = activations.attention_width(model), activations.key_width(model)
    attention = 4 * queries + 4 * keys + 4 * model.heads
    if model.head_norms:
        attention += 2 * (queries + keys)
    mlp = 6.0 * model.intermediate
    if model.experts:
        routed = model.experts_per_token * (2 * h + 6 * model.moe_intermediate)
        mlp = 4.0 * model.experts + routed + 6 * model.shared_expert_intermediate
    return 8 * h + attention + mlp


def megatron_activations(model: ModelFacts, shape: EngineShape, tokens: float) -> MegatronActivations:
    """Of one training step. 1F1B keeps as many micro batches in flight as there are stages."""
    per_gpu = tokens / shape.tensor_parallel
    layers = stage_layers(model, shape)
    in_flight = shape.pipeline_parallel
    one = layer_bytes(model)
    if shape.checkpointing:
        kept = activations.checkpoint_bytes(model, compute_bytes=2, layers=layers)
        again = one
    else:
        kept, again = layers * one, 0.0
    again += activations.backward_bytes(model, compute_bytes=2)
    return MegatronActivations(
        kept=kept * per_gpu * in_flight,
        recomputed=again * per_gpu,
        logits=megatron_logits(model, shape, tokens),
    )


def megatron_logits(model: ModelFacts, shape: EngineShape, tokens: float) -> float:
    """The last stage's logits and what the vocabulary-parallel loss makes of them."""
    words = model.vocab / shape.tensor_parallel
    return tokens * words * (2 if shape.fused_kernels else 2 + _LOSS_BYTES)


def _expert_parameters(model: ModelFacts) -> float:
    if not model.experts:
        return 0.0
    one = 3 * model.hidden * model.moe_intermediate
    return float((model.layers - model.dense_layers) * model.experts * one)
