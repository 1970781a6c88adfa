"""A model's architecture as numbers: from its config.json, or from the catalogue of well-known names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_CATALOGUE = Path(__file__).with_name("architectures.yaml")
_SAME_ARCHITECTURE = re.compile(
    r"[-_](instruct|chat|base|it|pt|thinking|bf16|hf|preview|\d{4}|\d{6})$", re.IGNORECASE
)
"""Endings of a model's name behind which the layers are the same."""
_BIASED_QKV = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "gpt_oss", "seed_oss", "glm4v"})
_BIASED_OUTPUT = frozenset({"gpt_oss"})
_BIASED_EXPERTS = frozenset({"gpt_oss"})
_NORMED_HEADS = frozenset({"qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "gemma3", "gemma3_text"})
_FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4", "glm4v"})
_TIED_UNLESS_SAID = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text"})
"""Model types whose config.json leaves `tie_word_embeddings` out although it is true."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What decides a language model's memory; sizes are numbers of elements."""

    name: str
    architecture: str
    """`model_type` of config.json: `qwen2`, `qwen3_moe`, `llama`..."""
    layers: int
    hidden: int
    intermediate: int
    """Of a dense MLP (gate and up are two such matrices, down the third)."""
    heads: int
    kv_heads: int
    head_dim: int
    """Of a query and key head; with latent attention its two parts together."""
    vocab: int
    tie_embeddings: bool
    experts: int = 0
    """Routed experts of a MoE layer; 0: dense."""
    experts_per_token: int = 0
    moe_intermediate: int = 0
    """Of one routed expert."""
    shared_expert_intermediate: int = 0
    """Of all shared experts of a layer together; 0: none."""
    dense_layers: int = 0
    """Layers of a MoE model with a dense MLP in the experts' place."""
    kv_latent: int = 0
    """Compressed key-value width of latent attention (MLA); 0: keys and values are kept per head."""
    q_latent: int = 0
    """Compressed query width of latent attention; 0: queries are projected in one step."""
    rope_dim: int = 0
    """The rotary part of `head_dim` under latent attention, kept once for all heads."""
    v_head_dim: int = 0
    """Of a value head; 0: as `head_dim`."""
    vision_parameters: int = 0
    """Of the image tower and its projector, where the catalogue knows them."""
    attention_biases: int = 0
    """Elements of all attention biases of one layer."""
    norms_per_layer: int = 2
    """Layer norms of width `hidden`."""
    head_norms: bool = False
    """Queries and keys are normalised per head."""

    def parameters(self) -> int:
        """All parameters that are trained, embeddings counted once where they are tied."""
        embeddings = self.vocab * self.hidden * (1 if self.tie_embeddings else 2)
        moe_layers = self.layers - self.dense_layers if self.experts else 0
        mlps = moe_layers * self.moe_layer_parameters()
        mlps += (self.layers - moe_layers) * self.dense_mlp_parameters()
        layer = self.attention_parameters() + self.norms_per_layer * self.hidden
        return embeddings + self.layers * layer + mlps + self.hidden + self.vision_parameters

    def active_parameters(self) -> int:
        """Parameters that one token passes: only its own experts of each MoE layer."""
        idle = self.experts - self.experts_per_token
        moe_layers = self.layers - self.dense_layers if self.experts else 0
        return self.parameters() - moe_layers * idle * self._expert_parameters()

    def attention_parameters(self) -> int:
        """Of one layer, biases and head norms included."""
        head_norms = 2 * self.head_dim if self.head_norms else 0
        if self.kv_latent:
            return self._latent_attention_parameters() + self.attention_biases
        queries_and_output = 2 * self.hidden * self.heads * self.head_dim
        keys_and_values = 2 * self.hidden * self.kv_heads * self.head_dim
        return queries_and_output + keys_and_values + self.attention_biases + head_norms

    def dense_mlp_parameters(self) -> int:
        """Of one layer's dense MLP."""
        return 3 * self.hidden * self.intermediate

    def moe_layer_parameters(self) -> int:
        """Of one layer's router, routed and shared experts; 0 for a dense model."""
        if not self.experts:
            return 0
        router = self.hidden * self.experts
        if self.architecture in ("deepseek_v3", *_BIASED_EXPERTS):
            router += self.experts
        shared = 3 * self.hidden * self.shared_expert_intermediate
        if self.architecture == "qwen2_moe":
            shared += self.hidden
        return router + self.experts * self._expert_parameters() + shared

    def _expert_parameters(self) -> int:
        biases = 2 * self.moe_intermediate + self.hidden if self.architecture in _BIASED_EXPERTS else 0
        return 3 * self.hidden * self.moe_intermediate + biases

    def _latent_attention_parameters(self) -> int:
        value_dim = self.v_head_dim or self.head_dim
        queries = self.heads * self.head_dim
        down = self.hidden * (self.kv_latent + self.rope_dim)
        up = self.kv_latent * self.heads * (self.head_dim - self.rope_dim + value_dim)
        query = (
            self.hidden * self.q_latent + self.q_latent + self.q_latent * queries
            if self.q_latent
            else self.hidden * queries
        )
        return query + down + self.kv_latent + up + self.heads * value_dim * self.hidden


def model_facts(path_or_name: str) -> ModelFacts | None:
    """The facts of a model folder (or its config.json), else of a well-known name; None: unknown.

    A folder that does not exist here is known by its last part: `$HOME/models/Qwen2.5-7B-Instruct`.
    """
    place = Path(path_or_name).expanduser()
    file = place if place.name == "config.json" else place / "config.json"
    if file.is_file():
        try:
            return facts_from_config(json.loads(file.read_text(encoding="utf-8")), path_or_name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
    known = _catalogue().get(place.name.lower()) or _catalogue().get(_plain_name(place.name))
    return None if known is None else facts_from_config(known, path_or_name)


def facts_from_config(config: Mapping[str, Any], name: str) -> ModelFacts:
    """The facts that a config.json states; of a multi-modal one, those of its language model.

    Raises:
        KeyError: a key is missing without which there is no size: layers, hidden, heads, vocabulary.
    """
    text = _language_model(config)
    architecture = str(text["model_type"])
    hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
    kv_heads = int(text.get("num_key_value_heads") or heads)
    rope_dim, latent = int(text.get("qk_rope_head_dim") or 0), int(text.get("kv_lora_rank") or 0)
    head_dim = int(text.get("head_dim") or hidden // heads)
    if latent:
        head_dim = int(text["qk_nope_head_dim"]) + rope_dim
    return ModelFacts(
        name=name,
        architecture=architecture,
        layers=int(text["num_hidden_layers"]),
        hidden=hidden,
        intermediate=int(text.get("intermediate_size") or 0),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=int(text["vocab_size"]),
        tie_embeddings=bool(text.get("tie_word_embeddings", architecture in _TIED_UNLESS_SAID)),
        kv_latent=latent,
        q_latent=int(text.get("q_lora_rank") or 0),
        rope_dim=rope_dim,
        v_head_dim=int(text.get("v_head_dim") or 0) if latent else 0,
        vision_parameters=int(config.get("vision_parameters") or 0),
        attention_biases=_attention_biases(text, architecture, (heads, kv_heads, head_dim, hidden)),
        norms_per_layer=4 if architecture in _FOUR_NORMS else 2,
        head_norms=architecture in _NORMED_HEADS,
        **_experts(text),
    )


def _language_model(config: Mapping[str, Any]) -> dict[str, Any]:
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        return dict(config)
    outer = {key: config[key] for key in ("tie_word_embeddings", "vocab_size") if key in config}
    return {**outer, **inner, "model_type": config.get("model_type", inner.get("model_type"))}


def _experts(text: Mapping[str, Any]) -> dict[str, int]:
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    experts = next((int(text[name]) for name in names if text.get(name)), 0)
    if not experts:
        return {}
    own = int(text.get("moe_intermediate_size") or text["intermediate_size"])
    shared = text.get("shared_expert_intermediate_size")
    if shared is None:
        shared = own * int(text.get("n_shared_experts") or 0)
    return {
        "experts": experts,
        "experts_per_token": int(text.get("num_experts_per_tok") or text.get("experts_per_token") or 1),
        "moe_intermediate": own,
        "shared_expert_intermediate": int(shared),
        "dense_layers": _dense_layers(text),
    }


def _dense_layers(text: Mapping[str, Any]) -> int:
    layers = int(text["num_hidden_layers"])
    stride = int(text.get("decoder_sparse_step") or 1)
    listed = {int(index) for index in text.get("mlp_only_layers") or ()}
    by_stride = {index for index in range(layers) if (index + 1) % stride}
    return len(listed | by_stride | set(range(int(text.get("first_k_dense_replace") or 0))))


def _attention_biases(text: Mapping[str, Any], architecture: str, sizes: tuple[int, int, int, int]) -> int:
    heads, kv_heads, head_dim, hidden = sizes
    if text.get("kv_lora_rank") or not text.get("attention_bias", architecture in _BIASED_QKV):
        return 0
    on_output = text.get("attention_out_bias", architecture in _BIASED_OUTPUT | {"llama"})
    return (heads + 2 * kv_heads) * head_dim + (hidden if on_output else 0) + _sinks(architecture, heads)


def _sinks(architecture: str, heads: int) -> int:
    """gpt-oss learns one attention sink a head."""
    return heads if architecture == "gpt_oss" else 0


def _plain_name(name: str) -> str:
    shorter = _SAME_ARCHITECTURE.sub("", name)
    return name.lower() if shorter == name else _plain_name(shorter)


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    entries = yaml.safe_load(_CATALOGUE.read_text(encoding="utf-8"))["models"]
    by_name: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for name in entry["names"]:
            by_name[name.lower()] = entry
            by_name.setdefault(_plain_name(name), entry)
    return by_name
