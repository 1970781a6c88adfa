"""verl's rules about engines, parallel degrees and single values; part of constraints.RULES."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from autotune.errors import Fault
from autotune.records import Value
from autotune.verl_config.training_shape import ACTOR, MODEL, REF, ROLLOUT, TrainingShape

_WHERE = "verl.overrides"
_ENGINES = ("vllm", "sglang", "trtllm")
_STRATEGIES = ("fsdp", "fsdp2", "fsdp_turbo", "megatron", "veomni", "torchtitan")
_LOSS_MODES = (
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
)
_LARGEST_VLLM_LORA_RANK = 512


def _rollout_engine(shape: TrainingShape) -> Iterable[Fault]:
    yield from _one_of(shape, f"{ROLLOUT}.name", _ENGINES)
    if shape.flat.get(f"{ROLLOUT}.mode") == "sync":
        yield Fault(where=_WHERE, key=f"{ROLLOUT}.mode", found="sync", allowed="async")


def _rollout_gpus_divide(shape: TrainingShape) -> Iterable[Fault]:
    tensor = shape.degree(f"{ROLLOUT}.tensor_model_parallel_size")
    data = shape.degree(f"{ROLLOUT}.data_parallel_size")
    pipeline = shape.degree(f"{ROLLOUT}.pipeline_model_parallel_size")
    if pipeline > 1:
        key = f"{ROLLOUT}.pipeline_model_parallel_size"
        yield Fault(where=_WHERE, key=key, found=str(pipeline), allowed="1")
        return
    if shape.flat.get("actor_rollout_ref.hybrid_engine") is False:
        return
    size, a_node = tensor * data, shape.count("trainer.n_gpus_per_node") or shape.gpus
    if shape.gpus % size:
        yield Fault(
            where=_WHERE,
            key=f"{ROLLOUT}.tensor_model_parallel_size",
            found=f"{tensor} * data_parallel_size {data} = {size} GPUs an engine",
            allowed=f"a divisor of {shape.gpus} GPUs",
        )
    elif size % min(a_node, size):
        yield Fault(
            where=_WHERE,
            key=f"{ROLLOUT}.tensor_model_parallel_size",
            found=f"{size} GPUs an engine, {a_node} GPUs a node",
            allowed="whole nodes where an engine is larger than one",
        )


def _experts(shape: TrainingShape) -> Iterable[Fault]:
    experts = shape.degree(f"{ROLLOUT}.expert_parallel_size")
    if experts == 1 or shape.flat.get(f"{ROLLOUT}.name") not in ("vllm", "sglang"):
        return
    tensor = shape.degree(f"{ROLLOUT}.tensor_model_parallel_size")
    data = shape.degree(f"{ROLLOUT}.data_parallel_size")
    if experts != tensor * data:
        yield Fault(
            where=_WHERE,
            key=f"{ROLLOUT}.expert_parallel_size",
            found=str(experts),
            allowed=f"1 or tensor * data parallel = {tensor} * {data} = {tensor * data}",
        )


def _rollout_limits(shape: TrainingShape) -> Iterable[Fault]:
    share = shape.number(f"{ROLLOUT}.gpu_memory_utilization")
    if share is not None and not 0 < share <= 1:
        key = f"{ROLLOUT}.gpu_memory_utilization"
        yield Fault(where=_WHERE, key=key, found=str(share), allowed="over 0, at most 1")
    tokens, sequences = (
        shape.count(f"{ROLLOUT}.max_num_batched_tokens"),
        shape.count(f"{ROLLOUT}.max_num_seqs"),
    )
    if shape.flat.get(f"{ROLLOUT}.name") == "vllm" and tokens and sequences and tokens < sequences:
        key = f"{ROLLOUT}.max_num_batched_tokens"
        yield Fault(where=_WHERE, key=key, found=str(tokens), allowed=f"at least max_num_seqs = {sequences}")
    longest, model_length = shape.sequence_tokens, shape.count(f"{ROLLOUT}.max_model_len")
    if longest is not None and model_length is not None and model_length < longest:
        yield Fault(
            where=_WHERE,
            key=f"{ROLLOUT}.max_model_len",
            found=str(model_length),
            allowed=f"at least max_prompt_length + max_response_length = {longest}",
        )


def _lora_rank(shape: TrainingShape) -> Iterable[Fault]:
    rank = shape.lora_rank
    if shape.flat.get(f"{ROLLOUT}.name") == "vllm" and rank > _LARGEST_VLLM_LORA_RANK:
        allowed = f"at most {_LARGEST_VLLM_LORA_RANK}"
        yield Fault(where=_WHERE, key=f"{MODEL}.lora_rank", found=str(rank), allowed=allowed)


def _actor_gpus_divide(shape: TrainingShape) -> Iterable[Fault]:
    size = shape.gpus_per_replica
    if shape.gpus % size:
        what = (
            "tensor * pipeline * context parallel" if shape.is_megatron else "ulysses_sequence_parallel_size"
        )
        key = f"{ACTOR}.megatron" if shape.is_megatron else f"{ACTOR}.ulysses_sequence_parallel_size"
        yield Fault(
            where=_WHERE, key=key, found=f"{what} = {size}", allowed=f"a divisor of {shape.gpus} GPUs"
        )
    shards = shape.count(f"{ACTOR}.fsdp_config.fsdp_size")
    if shape.is_fsdp and shards and 0 < shards < shape.gpus and shape.gpus % shards:
        key = f"{ACTOR}.fsdp_config.fsdp_size"
        yield Fault(where=_WHERE, key=key, found=str(shards), allowed=f"-1 or a divisor of {shape.gpus} GPUs")


def _sequence_parallel_needs_packing(shape: TrainingShape) -> Iterable[Fault]:
    if not shape.is_fsdp or shape.flat.get(f"{MODEL}.use_remove_padding"):
        return
    for section in (ACTOR, REF):
        size = shape.sequence_parallel(section)
        if size > 1:
            key = f"{section}.ulysses_sequence_parallel_size"
            allowed = f"1, or {MODEL}.use_remove_padding=true"
            yield Fault(where=_WHERE, key=key, found=str(size), allowed=allowed)
            return


def _engine_values(shape: TrainingShape) -> Iterable[Fault]:
    yield from _one_of(shape, f"{ACTOR}.strategy", _STRATEGIES)
    if shape.is_fsdp:
        yield from _one_of(shape, f"{ACTOR}.optim.lr_scheduler_type", ("constant", "cosine"))
    sections = [f"{ACTOR}.fsdp_config", f"{REF}.fsdp_config"] + (["critic.fsdp"] if shape.uses_critic else [])
    for section in sections:
        precision = shape.flat.get(f"{section}.mixed_precision")
        if precision is not None and not isinstance(precision, dict):
            yield Fault(
                where=_WHERE,
                key=f"{section}.mixed_precision",
                found=repr(precision),
                allowed="a mapping {param_dtype, reduce_dtype, buffer_dtype}",
            )


def _loss_values(shape: TrainingShape) -> Iterable[Fault]:
    yield from _one_of(shape, f"{ACTOR}.loss_agg_mode", _LOSS_MODES)
    dual_clip = shape.number(f"{ACTOR}.clip_ratio_c")
    if dual_clip is not None and dual_clip <= 1:
        yield Fault(where=_WHERE, key=f"{ACTOR}.clip_ratio_c", found=str(dual_clip), allowed="over 1")
    horizon = shape.number("algorithm.kl_ctrl.horizon")
    adaptive = shape.flat.get("algorithm.kl_ctrl.type") == "adaptive"
    if shape.flat.get("algorithm.use_kl_in_reward") and adaptive and horizon is not None and horizon <= 0:
        yield Fault(where=_WHERE, key="algorithm.kl_ctrl.horizon", found=str(horizon), allowed="over 0")
    penalty = shape.flat.get("algorithm.kl_penalty")
    if shape.flat.get("algorithm.use_kl_in_reward") and penalty == "full":
        yield Fault(
            where=_WHERE, key="algorithm.kl_penalty", found="full", allowed="kl, abs, mse, low_var_kl"
        )
    temperature = shape.number(f"{ROLLOUT}.temperature")
    if shape.flat.get(f"{ROLLOUT}.val_kwargs.do_sample") and temperature is not None and temperature <= 0:
        allowed = "over 0, since val_kwargs.do_sample is true"
        yield Fault(where=_WHERE, key=f"{ROLLOUT}.temperature", found=str(temperature), allowed=allowed)


def _one_of(shape: TrainingShape, key: str, allowed: Sequence[str]) -> Iterable[Fault]:
    value: Value = shape.flat.get(key)
    if value is not None and value not in allowed:
        found = "nothing (verl has no default)" if value == "???" else str(value)
        yield Fault(where=_WHERE, key=key, found=found, allowed=", ".join(allowed))


ENGINE_RULES: Mapping[str, Callable[[TrainingShape], Iterable[Fault]]] = {
    "rollout_engine": _rollout_engine,  # workers/rollout/base.py:89, workers/config/rollout.py:281
    "rollout_gpus_divide": _rollout_gpus_divide,  # workers/engine_workers.py:655, rollout/replica.py:114
    "experts": _experts,  # workers/config/rollout.py:294
    "rollout_limits": _rollout_limits,  # vllm config/cache.py:67, config/scheduler.py:286
    "lora_rank": _lora_rank,  # workers/rollout/vllm_rollout/utils.py:83
    "actor_gpus_divide": _actor_gpus_divide,  # utils/config.py:101, workers/engine/fsdp/utils.py:63
    "sequence_parallel_needs_packing": _sequence_parallel_needs_packing,  # workers/config/actor.py:331
    "engine_values": _engine_values,  # workers/config/engine.py:306, optimizer.py:123
    "loss_values": _loss_values,  # workers/config/actor.py:212, trainer/ppo/core_algos.py:209,1331,2228
}
