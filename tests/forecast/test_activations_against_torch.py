"""The activation formulas against what autograd really keeps: saved-tensor hooks under fake tensors."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.forecast.activations import (
    backward_bytes,
    checkpoint_bytes,
    largest_layer_bytes,
    saved_bytes_of_layer,
)
from autotune.forecast.model_facts import ModelFacts, facts_from_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.verl, pytest.mark.timeout(180)]

_COMMON: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
}
_ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2Config", {}),
    "llama": ("LlamaConfig", {"intermediate_size": 1024, "num_key_value_heads": 8}),
    "qwen3": ("Qwen3Config", {"head_dim": 64}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "head_dim": 64},
    ),
    "mixtral": ("MixtralConfig", {"num_local_experts": 8, "num_experts_per_tok": 2}),
}
_LENGTHS = (128, 512, 2048)


@pytest.mark.parametrize("tokens", _LENGTHS)
@pytest.mark.parametrize("name", _ARCHITECTURES)
def test_a_layer_keeps_what_the_formula_says(name: str, tokens: int) -> None:
    facts = _facts(name)
    measured = (_saved(name, 4, tokens) - _saved(name, 2, tokens)) / 2 / tokens
    formula = saved_bytes_of_layer(
        facts, moe=facts.experts > 0, compute_bytes=2, flash=False, sequence_tokens=tokens
    )
    assert formula == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("name", _ARCHITECTURES)
def test_with_checkpointing_a_layer_keeps_its_input(name: str) -> None:
    facts = _facts(name)
    measured = (_saved(name, 4, 512, checkpointing=True) - _saved(name, 2, 512, checkpointing=True)) / 512
    assert checkpoint_bytes(facts, compute_bytes=2, layers=2) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("name", ["qwen2", "llama", "qwen3", "qwen3_moe"])
def test_the_worst_moment_of_a_backward_pass(name: str) -> None:
    """Checkpoints, one layer recomputed and its gradients, against PyTorch's MemTracker."""
    facts, tokens, layers = _facts(name), 1024, 4
    sizes = {"compute_bytes": 2, "flash": False, "sequence_tokens": tokens}
    formula = (
        checkpoint_bytes(facts, compute_bytes=2, layers=layers)
        + largest_layer_bytes(facts, **sizes)
        + backward_bytes(facts, compute_bytes=2)
    )
    assert formula == pytest.approx(_tracked(name, layers, tokens) / tokens, rel=0.08)


def _settings(name: str) -> tuple[Any, dict[str, Any]]:
    kind, extra = _ARCHITECTURES[name]
    return getattr(transformers, kind), {**_COMMON, **extra}


def _facts(name: str) -> ModelFacts:
    kind, settings = _settings(name)
    config = {**settings, "num_hidden_layers": 2, "model_type": kind.model_type}
    return facts_from_config(config, name)


def _saved(name: str, layers: int, tokens: int, *, checkpointing: bool = False) -> int:
    """Bytes of the storages that a forward pass saves for the backward pass, parameters left out."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    kind, settings = _settings(name)
    with FakeTensorMode(allow_non_fake_inputs=True):
        config = kind(num_hidden_layers=layers, **settings)
        model = transformers.AutoModel.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        owned = {id_of(tensor) for tensor in (*model.parameters(), *model.buffers())}
        sizes: dict[int, int] = {}
        alive = []

        def keep(tensor: Any) -> Any:
            alive.append(tensor)
            if id_of(tensor) not in owned:
                sizes[id_of(tensor)] = tensor.untyped_storage().nbytes()
            return tensor

        if checkpointing:
            return _saved_by_checkpoints(model, tokens)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(input_ids=torch.randint(0, 100, (1, tokens)), use_cache=False)
        return sum(sizes.values())


def _saved_by_checkpoints(model: Any, tokens: int) -> int:
    """Non-reentrant checkpointing keeps each layer's arguments: the storages of its hidden states."""
    sizes: dict[int, int] = {}
    alive = []

    def keep(_layer: Any, arguments: tuple[Any, ...], _named: Any) -> None:
        hidden = arguments[0]
        alive.append(hidden)
        sizes[id_of(hidden)] = hidden.untyped_storage().nbytes()

    for layer in model.layers:
        layer.register_forward_pre_hook(keep, with_kwargs=True)
    model(input_ids=torch.randint(0, 100, (1, tokens)), use_cache=False)
    return sum(sizes.values())


def id_of(tensor: Any) -> int:
    """Identity of a tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def _tracked(name: str, layers: int, tokens: int) -> int:
    """Peak of activations and temporaries over a forward and backward pass with checkpointing."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    kind, settings = _settings(name)
    with FakeTensorMode(allow_non_fake_inputs=True):
        config = kind(num_hidden_layers=layers, **settings)
        model = transformers.AutoModel.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        model.train()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        tokens_ids = torch.randint(0, 100, (1, tokens))
        tracker = MemTracker()
        tracker.track_external(model)
        with tracker:
            model(input_ids=tokens_ids, use_cache=False).last_hidden_state.sum().backward()
        peak = next(iter(tracker.get_tracker_snapshot("peak").values()))
    return sum(size for kind_of, size in peak.items() if str(kind_of).rsplit(".", 1)[-1].lower() in _COUNTED)


_COUNTED = ("act", "activation", "temp")
