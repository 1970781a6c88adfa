"""Memory of the language model's head: logits, log-probabilities and entropy over the vocabulary.

Counted in copies of the logits (tokens x vocabulary, computed precision) alive at once, as verl 0.9.1
workers/engine/fsdp/transformer_impl.py:1360-1440 and utils/torch_functional.py:74-220 produce them.
"""

from __future__ import annotations

from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.model_facts import ModelFacts

FUSED_CHUNK_TOKENS = 512
"""verl 0.9.1 utils/experimental/torch_functional.py:104, FusedLinearForPPO."""
_FUSED_CHUNK_BYTES = 2 + 4 + 4 + 4
"""Per chunk token and word: the logits, their fp32 copy, the softmax, its product with the logits
(the same file, lines 36-60)."""
_ENTROPY_CHUNK_BYTES = 3 * 4
"""Per chunk token and word: fp32 logits, softmax, product (utils/torch_functional.py:226-232)."""


def update_copies(shape: EngineShape, *, entropy: bool) -> float:
    """Copies of the logits alive at the worst moment of a training step's head.

    Flash attention's cross entropy writes the gradient over the logits, unless the entropy needs them too
    (`inplace_backward`, transformer_impl.py:1426-1433). With entropy: the logits, the gradient of the
    log-probabilities and that of the entropy, which the compiled kernel makes in one piece (it keeps
    only row statistics). Uncompiled, the softmax is kept and its backward needs one more.
    """
    copies = 3.0 if entropy else 1.0
    if not shape.flash_attention:
        # Without the flash-attn package, log-softmax row by row keeps its output, and its gradient is apart.
        copies = 4.0 if entropy else 3.0
    if entropy and not shape.compiled_entropy:
        copies += 2.0
    return copies if shape.unit_temperature else copies + 1.0


def forward_copies(shape: EngineShape, *, entropy: bool) -> float:
    """Copies of the logits alive at the worst moment of a forward pass without gradients."""
    copies = 1.0
    if entropy and not shape.compiled_entropy and not shape.entropy_chunk_tokens:
        copies += 2.0  # softmax and its product with the logits
    return copies if shape.unit_temperature else copies + 1.0


def logits_bytes(model: ModelFacts, shape: EngineShape, tokens: float, copies: float) -> float:
    """Bytes of the head for `tokens` tokens of one GPU."""
    words = model.vocab / shape.tensor_parallel
    if shape.fused_kernels:
        weight_gradient = model.vocab * model.hidden / shape.tensor_parallel * shape.compute_bytes
        return min(tokens, FUSED_CHUNK_TOKENS) * words * _FUSED_CHUNK_BYTES + weight_gradient
    total = copies * tokens * words * shape.compute_bytes
    if shape.entropy_chunk_tokens:
        total += min(tokens, shape.entropy_chunk_tokens) * words * _ENTROPY_CHUNK_BYTES
    return total
