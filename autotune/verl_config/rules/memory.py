"""Interplays that cost device memory, or crash the engine that shares the device."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity, shown
from autotune.verl_config.training_shape import ACTOR, MODEL, ROLLOUT

_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
_ALLOCATORS = (_ALLOCATOR, "PYTORCH_ALLOC_CONF")


def _expandable_segments(setting: Setting) -> Iterable[Hit]:
    if setting.flat.get(f"{ROLLOUT}.free_cache_engine") is False:
        return
    places = {name: setting.environment.get(name, "") for name in _ALLOCATORS}
    prefix = "ray_kwargs.ray_init.runtime_env.env_vars."
    places.update({f"{prefix}{name}": str(setting.given.get(f"{prefix}{name}", "")) for name in _ALLOCATORS})
    for key, value in places.items():
        if "expandable_segments:true" in value.lower().replace(" ", ""):
            yield Hit(
                key=key,
                found=value,
                message="the engine's sleep mode uses a memory pool of its own, which asserts that expandable"
                " segments are off; leave it out, or set free_cache_engine=false",
                fix=Fix(remove=(key,)),
            )


def _model_length(setting: Setting) -> Iterable[Hit]:
    key, longest = f"{ROLLOUT}.max_model_len", setting.shape.sequence_tokens
    if setting.flat.get(key) is not None or longest is None or setting.model is None:
        return
    if setting.flat.get(f"{ROLLOUT}.name") != "vllm":
        return
    positions = (setting.model.get("text_config") or setting.model).get("max_position_embeddings")
    if isinstance(positions, int) and positions > longest:
        yield Hit(
            key=key,
            found="null",
            message=f"the engine checks its KV cache for the model's {positions} positions;"
            f" this run needs {longest}",
            fix=Fix(set={key: longest}),
        )


def _weight_bucket(setting: Setting) -> Iterable[Hit]:
    """The embedding is the largest single weight; verl sends it in one piece, in the rollout's precision."""
    key = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
    if key not in setting.schema.defaults or setting.model is None or setting.shape.uses_lora:
        return
    text = setting.model.get("text_config") or setting.model
    vocabulary, hidden = text.get("vocab_size"), text.get("hidden_size")
    megabytes = setting.shape.count(key)
    if not isinstance(vocabulary, int) or not isinstance(hidden, int) or megabytes is None:
        return
    size = 4 if setting.flat.get(f"{ROLLOUT}.dtype") in ("float32", "float") else 2
    needed = ceil(vocabulary * hidden * size / 2**20)
    if needed > megabytes:
        yield Hit(
            key=key,
            found=str(megabytes),
            message=f"the embedding of {vocabulary} * {hidden} numbers of {size} bytes has {needed} MB",
            fix=Fix(set={key: 256 * ceil(needed / 256)}),
        )


def _checkpointing_off(setting: Setting) -> Iterable[Hit]:
    key = f"{MODEL}.enable_gradient_checkpointing"
    if setting.given.get(key) is False:
        yield Hit(
            key=key,
            found="false",
            message="keeps every activation of a micro batch in memory; it does not avoid contention",
            fix=Fix(set={key: True}),
        )


def _utilization(setting: Setting) -> Iterable[Hit]:
    key, share = (
        f"{ROLLOUT}.gpu_memory_utilization",
        setting.shape.number(f"{ROLLOUT}.gpu_memory_utilization"),
    )
    hybrid = setting.flat.get("actor_rollout_ref.hybrid_engine") is not False
    if share is None or share <= 0.9 or not hybrid:
        return
    yield Hit(
        key=key,
        found=shown(share),
        message="a share of the whole device, weights included, beside the trainer on the same device",
    )


def _fused_kernels(setting: Setting) -> Iterable[Hit]:
    key, shared_by = f"{MODEL}.use_fused_kernels", setting.shape.sequence_parallel(ACTOR)
    if setting.given.get(key) is True and shared_by > 1 and setting.shape.is_fsdp:
        yield Hit(
            key=key,
            found=f"true with ulysses_sequence_parallel_size {shared_by}",
            message="fused kernels do not go with sequence parallelism",
            fix=Fix(set={key: False}),
        )


MEMORY_RULES = (
    Rule(
        "expandable_segments",
        Severity.ERROR,
        "vLLM's sleep mode: `Expandable segments are not compatible with memory pool`",
        _expandable_segments,
    ),
    Rule(
        "model_length_unset",
        Severity.WARNING,
        "An unset max_model_len is the model's own (vllm_async_server.py:1101), which may not fit",
        _model_length,
    ),
    Rule(
        "weight_bucket",
        Severity.WARNING,
        "`Weight ... is too large to fit in the bucket` at the first weight sync; since 0.8 only where the"
        " transfer goes through shared memory (bucketed_weight_transfer.py:140)",
        _weight_bucket,
    ),
    Rule("checkpointing_off", Severity.NOTE, "Activation memory grows several times", _checkpointing_off),
    Rule("utilization_high", Severity.WARNING, "Over 0.9 leaves the trainer no room", _utilization),
    Rule("fused_kernels_with_sp", Severity.NOTE, "Levers table: not with sp > 1", _fused_kernels),
)
