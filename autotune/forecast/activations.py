"""Bytes of activations of one transformer layer, read off Hugging Face's modules operation by operation.

What autograd keeps, per token (h hidden, a query width, k key width, f MLP width, c bytes of one
computed value; transformers 5.10 models/{qwen2,qwen3,llama,mixtral}/modeling_*.py):

    RMSNorm, twice       the fp32 copy 4h, its inverse root 4, the scaled copy c*h
    its output           c*h, kept once for all projections that read it
    head norms (Qwen3)   the same per head: (4 + c)(a + k) + 4 for every head
    attention            query and output 2*c*a, key and value 2*c*k, log-sum-exp 4 for every head
                         without flash attention: key and value repeated to a, and a mask row
    MLP                  gate, SiLU(gate), up and their product: 4*c*f
    mixture of experts   router 4 for every expert, then the MLP and its input and output for each
                         of the token's experts

The same count for a GPT layer is Korthikanti et al. (arXiv:2205.05198), equation 1: 34*s*b*h. Checked
against autograd in tests/forecast/test_activations_against_torch.py.
"""

from __future__ import annotations

from autotune.forecast.model_facts import ModelFacts

_INDEX_BYTES = 8
_SORT_TENSORS = 3
"""Index tensors that the grouped expert product keeps for each routed token."""


def attention_width(model: ModelFacts) -> int:
    """Width of all queries of one token."""
    return model.heads * model.head_dim


def key_width(model: ModelFacts) -> int:
    """Width of all keys of one token."""
    return model.kv_heads * model.head_dim


def active_mlp_width(model: ModelFacts, *, moe: bool) -> int:
    """Width of all MLPs that one token passes."""
    if not moe:
        return model.intermediate
    return model.experts_per_token * model.moe_intermediate + model.shared_expert_intermediate


def saved_bytes_of_layer(
    model: ModelFacts, *, moe: bool, compute_bytes: int, flash: bool, sequence_tokens: float
) -> float:
    """Bytes per token that one layer keeps for its backward pass, without recomputation.

    Args:
        model: The architecture.
        moe: The layer has experts.
        compute_bytes: Of one computed value (2 for bf16).
        flash: Flash attention; else PyTorch's scaled_dot_product_attention with a mask.
        sequence_tokens: Width of the mask's row.
    """
    c, h = compute_bytes, model.hidden
    norms = model.norms_per_layer * (4 * h + 4 + c * h) + 2 * c * h
    total = norms + _attention(model, c, flash=flash, sequence_tokens=sequence_tokens)
    return total + (_experts(model, c) if moe else 4 * c * model.intermediate)


def _attention(model: ModelFacts, c: int, *, flash: bool, sequence_tokens: float) -> float:
    a, k = attention_width(model), key_width(model)
    total = 2.0 * c * a + 4 * model.heads
    total += 2 * c * k if flash else 2 * c * a + c * sequence_tokens
    if model.head_norms:
        total += (4 + c) * (a + k) + 4 * (model.heads + model.kv_heads)
    return total


def _experts(model: ModelFacts, c: int) -> float:
    chosen = model.experts_per_token
    router = 4.0 * model.experts + _INDEX_BYTES * chosen
    routed = 2 * c * model.hidden + 4 * c * model.moe_intermediate + c + 1 + _SORT_TENSORS * _INDEX_BYTES
    return router + chosen * routed + 4 * c * model.shared_expert_intermediate


def saved_bytes(
    model: ModelFacts, *, compute_bytes: int, flash: bool, sequence_tokens: float, layers: float | None = None
) -> float:
    """Bytes per token that all layers (or `layers` of them, of the usual mix) keep."""
    moe_share = (model.layers - model.dense_layers) / model.layers if model.experts else 0.0
    count = model.layers if layers is None else layers
    each = 0.0
    for moe, share in ((True, moe_share), (False, 1.0 - moe_share)):
        if share > 0.0:
            each += share * saved_bytes_of_layer(
                model, moe=moe, compute_bytes=compute_bytes, flash=flash, sequence_tokens=sequence_tokens
            )
    return count * each


def checkpoint_bytes(model: ModelFacts, *, compute_bytes: int, layers: float | None = None) -> float:
    """Bytes per token of the layer inputs that gradient checkpointing keeps."""
    return (model.layers if layers is None else layers) * compute_bytes * model.hidden


def largest_layer_bytes(
    model: ModelFacts, *, compute_bytes: int, flash: bool, sequence_tokens: float
) -> float:
    """Bytes per token that the heaviest layer keeps: what recomputation brings back at once."""
    return max(
        saved_bytes_of_layer(
            model, moe=moe, compute_bytes=compute_bytes, flash=flash, sequence_tokens=sequence_tokens
        )
        for moe in _kinds(model)
    )


def backward_bytes(model: ModelFacts, *, compute_bytes: int) -> float:
    """Bytes per token that a layer's backward pass adds to what the layer keeps, at its worst moment.

    That moment is the MLP's: the gradients of the residual, of the product, of SiLU(gate) and of up,
    while the product itself is gone already. Routed experts add the gradients of their inputs and outputs.
    """
    widest = max(active_mlp_width(model, moe=moe) for moe in _kinds(model))
    routed = 2 * model.experts_per_token * model.hidden
    return compute_bytes * (model.hidden + 2 * widest + routed)


def forward_bytes(model: ModelFacts, *, compute_bytes: int) -> float:
    """Bytes per token alive at once in a layer's forward pass without gradients.

    The residual, then the largest of the MLP's three products (and the experts' inputs), the fp32 copies
    of a norm, and the attention's operands.
    """
    c, h = compute_bytes, model.hidden
    widest = max(active_mlp_width(model, moe=moe) for moe in _kinds(model))
    mlp = 3 * c * widest + c * model.experts_per_token * h
    return c * h + max(mlp, 8 * h, 2 * c * (attention_width(model) + key_width(model)))


def _kinds(model: ModelFacts) -> tuple[bool, ...]:
    """Whether the layers have experts: of some models, not all have."""
    if not model.experts:
        return (False,)
    return (True, False) if model.dense_layers else (True,)
