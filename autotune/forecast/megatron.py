"""Bytes of parameters, gradients, optimizer and activations on one GPU under Megatron-Core.

Parameters are cut by tensor and pipeline parallelism, experts by expert parallelism; gradients are
accumulated in fp32; the distributed optimizer cuts masters and moments over the data-parallel ranks
(Narayanan et al., arXiv:2104.04473; Megatron-Core docs, dist_optimizer: 18 bytes a parameter whole,
6 + 12 / d with bf16 parameters and fp32 gradients). Activations: Korthikanti et al. (arXiv:2205.05198),
equation 4: with sequence parallelism everything is cut by the tensor-parallel size.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.forecast import activations
from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.pipeline import layers_in_flight, stages_layers
from autotune.forecast.states import lora_parameters

_PARAMETER_BYTES = 2
_GRADIENT_BYTES = 4
_OPTIMIZER_BYTES = 12
"""fp32 master, first and second moment."""
MASTERS_FRAC = 4 / _OPTIMIZER_BYTES
"""Of the optimizer: the fp32 masters, which are there before the first step makes the moments."""
_LOSS_BYTES = 2 + 4
"""Per word of the vocabulary-parallel loss: on the way forward the bf16 logits and their fp32 copy, which
becomes the softmax in place; on the way back that copy as the gradient and the gradient cast to bf16, the
logits being gone (Megatron-Core tensor_parallel/cross_entropy.py)."""
_CLONE_BYTES = 2
"""With the entropy verl takes the loss of a copy (verl 0.9.1 workers/engine/megatron/transformer_impl.py,
_lm_head_logits_processor)."""
_SOFTMAX_BYTES = 2
"""Which the entropy keeps for its gradient (utils/megatron/tensor_parallel.py, _VocabParallelEntropy)."""
_FUSED_SPLIT_WORDS = 9504
"""verl's fused head makes the gradient of so many words at a time, and no logits at all (verl 0.9.1
utils/kernel/kernels.py, efficient_entropy_backward)."""
_FUSED_STATISTICS_BYTES = 3 * 4 / 1024
"""On the way forward it keeps three fp32 figures for every 1024 words (efficient_entropy_forward there)."""


@dataclass(frozen=True, kw_only=True)
class MegatronStates:
    """Bytes per GPU of one model, on the heaviest pipeline stage."""

    parameters: float
    gradients: float
    optimizer: float
    host_optimizer: float
    """What the hybrid optimizer keeps on the host for one GPU: masters, moments and fp32 copies of the
    gradients (Megatron-Core optimizer/cpu_offloading/hybrid_optimizer.py, cpu_copy_map_grad)."""


@dataclass(frozen=True, kw_only=True)
class MegatronActivations:
    """Bytes per GPU of a micro batch's activations."""

    kept: float
    """Of all micro batches in flight on the stage that holds most."""
    kept_last: float
    """Of the last stage's one micro batch."""
    recomputed: float
    """One layer's, brought back by full recomputation, or its gradients."""
    logits: float


def megatron_states(model: ModelFacts, shape: EngineShape) -> MegatronStates:
    """Of the heaviest stage: its share of the layers and one of embedding and head."""
    share = max(stages_layers(model, shape)) / model.layers
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
    owned = trained_dense / ranks + trained_routed / expert_ranks
    on_gpu, on_host = (
        (0, _OPTIMIZER_BYTES + _GRADIENT_BYTES) if shape.optimizer_on_cpu else (_OPTIMIZER_BYTES, 0)
    )
    return MegatronStates(
        parameters=(dense + routed) * _PARAMETER_BYTES,
        gradients=(trained_dense + trained_routed) * _GRADIENT_BYTES,
        optimizer=on_gpu * owned,
        host_optimizer=on_host * owned,
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


def megatron_activations(
    model: ModelFacts, shape: EngineShape, tokens: float, *, entropy: bool
) -> MegatronActivations:
    """Of one training step. 1F1B keeps more micro batches in flight the earlier the stage."""
    per_gpu = tokens / shape.tensor_parallel
    one = layer_bytes(model)
    each, again = (2.0 * model.hidden, one) if shape.checkpointing else (one, 0.0)
    again += activations.backward_bytes(model, compute_bytes=2)
    return MegatronActivations(
        kept=each * per_gpu * layers_in_flight(model, shape),
        kept_last=each * per_gpu * stages_layers(model, shape)[-1],
        recomputed=again * per_gpu,
        logits=megatron_logits(model, shape, tokens, entropy=entropy, training=True),
    )


def megatron_logits(
    model: ModelFacts, shape: EngineShape, tokens: float, *, entropy: bool, training: bool
) -> float:
    """Bytes of the last stage's head: the logits and what the vocabulary-parallel loss makes of them."""
    words = model.vocab / shape.tensor_parallel
    if shape.fused_kernels:
        if not training:
            return tokens * words * _FUSED_STATISTICS_BYTES
        return 2 * (tokens * min(_FUSED_SPLIT_WORDS, words) + words * model.hidden)
    of_entropy = _CLONE_BYTES + (_SOFTMAX_BYTES if training else 0) if entropy else 0
    return tokens * words * (_LOSS_BYTES + of_entropy)


def _expert_parameters(model: ModelFacts) -> float:
    if not model.experts:
        return 0.0
    one = 3 * model.hidden * model.moe_intermediate
    return float((model.layers - model.dense_layers) * model.experts * one)
