"""Combinations that verl refuses or dies of: verl_config/constraints.py, told as findings with fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil

from autotune.errors import Fault
from autotune.records import Value
from autotune.verl_config.constraints import RULES as CONSTRAINTS
from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity
from autotune.verl_config.training_shape import ACTOR, MODEL, REF, ROLLOUT

_SINCE: Mapping[str, str] = {
    # The global forms of the micro batches were enough before (workers/engine_workers.py:636).
    "micro_batch_given": "0.9.0",
    "asynchronous_batch": "0.9.0",
    "packing_agrees": "0.9.0",
}
"""Constraints that older versions do not have."""


def _hits(id_: str, setting: Setting) -> Iterable[Hit]:
    if not setting.since(_SINCE.get(id_, "0")):
        return
    for fault in CONSTRAINTS[id_](setting.shape):
        if _is_older(setting, id_, fault):
            continue
        yield Hit(
            key=fault.key,
            found=fault.found,
            message=_message(fault),
            fix=_fix(id_, fault, setting),
        )


def _is_older(setting: Setting, id_: str, fault: Fault) -> bool:
    """Values that this version still takes."""
    if id_ == "rollout_engine" and not setting.since("0.9.0"):
        return fault.found in ("hf", "sync")
    return False


def _message(fault: Fault) -> str:
    return f"allowed: {fault.allowed}" + (f"; {fault.next_step}" if fault.next_step else "")


def _fix(id_: str, fault: Fault, setting: Setting) -> Fix | None:
    mend = _MENDS.get(id_)
    values = mend(fault.key, setting) if mend else {}
    return Fix(set=values) if values else None


def _mended_budget(key: str, setting: Setting) -> dict[str, Value]:
    longest = setting.shape.sequence_tokens
    section = REF if key.startswith(REF) else ACTOR
    if longest is None:
        return {}
    actor, least = (
        f"{ACTOR}.ppo_max_token_len_per_gpu",
        ceil(longest / setting.shape.sequence_parallel(section)),
    )
    # The log-prob budgets follow the actor's by interpolation, unless they were written.
    return {key if setting.gives(key) else actor: least}


def _mended_packing(key: str, setting: Setting) -> dict[str, Value]:
    return {key: bool(setting.flat.get(f"{ACTOR}.use_dynamic_bsz"))}


def _mended_tensor_parallel(key: str, setting: Setting) -> dict[str, Value]:
    if not key.endswith("tensor_model_parallel_size"):
        return {}
    asked, data = setting.shape.degree(key), setting.shape.degree(f"{ROLLOUT}.data_parallel_size")
    fitting = [size for size in range(1, asked + 1) if setting.gpus % (size * data) == 0]
    return {key: fitting[-1]} if fitting else {}


def _mended_mini_batch(key: str, setting: Setting) -> dict[str, Value]:
    train = setting.shape.count("data.train_batch_size")
    return {key: train} if train else {}


def _mended_micro_batch(key: str, setting: Setting) -> dict[str, Value]:
    shape = setting.shape
    if key == f"{ACTOR}.ppo_micro_batch_size_per_gpu":
        mini, ranks = shape.samples(shape.count(f"{ACTOR}.ppo_mini_batch_size")), shape.data_parallel
        share = mini // ranks if mini and ranks else None
    else:
        share = shape.batch_samples_per_rank
    micro = shape.count(key)
    if not share or not micro:
        return {}
    return {key: max(size for size in range(1, min(micro, share) + 1) if share % size == 0)}


def _mended_old_form(key: str, setting: Setting) -> dict[str, Value]:
    old = setting.shape.count(key.removesuffix("_per_gpu"))
    return {key: max(1, old // setting.gpus)} if old else {}


def _mended_rollout_limit(key: str, setting: Setting) -> dict[str, Value]:
    if key.endswith("max_model_len"):
        return {key: setting.shape.sequence_tokens}
    if key.endswith("max_num_batched_tokens"):
        return {key: setting.shape.count(f"{ROLLOUT}.max_num_seqs")}
    return {}


def _mended_padding(key: str, setting: Setting) -> dict[str, Value]:
    del key, setting
    return {f"{MODEL}.use_remove_padding": True}


def _mended_gpus(key: str, setting: Setting) -> dict[str, Value]:
    nodes = setting.shape.degree("trainer.nnodes")
    return {key: setting.gpus // nodes} if setting.gpus % nodes == 0 else {}


_MENDS: Mapping[str, Callable[[str, Setting], dict[str, Value]]] = {
    "gpus_agree": _mended_gpus,
    "token_budget": _mended_budget,
    "packing_agrees": _mended_packing,
    "rollout_gpus_divide": _mended_tensor_parallel,
    "mini_batch_fits": _mended_mini_batch,
    "micro_batch_divides": _mended_micro_batch,
    "micro_batch_given": _mended_old_form,
    "rollout_limits": _mended_rollout_limit,
    "sequence_parallel_needs_packing": _mended_padding,
}


def _without_chunks(setting: Setting) -> Iterable[Hit]:
    """Vllm before 0.12 refuses it; newer ones raise the budget themselves and say so."""
    key = f"{ROLLOUT}.max_num_batched_tokens"
    shape = setting.shape
    if setting.flat.get(f"{ROLLOUT}.name") != "vllm" or setting.flat.get(f"{ROLLOUT}.enable_chunked_prefill"):
        return
    tokens = shape.count(key)
    longest = shape.count(f"{ROLLOUT}.max_model_len") or shape.sequence_tokens
    if tokens is not None and longest is not None and tokens < longest:
        yield Hit(
            key=key,
            found=str(tokens),
            message=f"allowed: at least {longest}, since enable_chunked_prefill is false",
            fix=Fix(set={key: longest}),
        )


def _heads(setting: Setting) -> Iterable[Hit]:
    """What the model's own config.json decides: heads over parallel degrees, and its longest length."""
    if setting.model is None:
        return
    text = setting.model.get("text_config") or setting.model
    heads, kv_heads = text.get("num_attention_heads"), text.get("num_key_value_heads")
    tensor, share = f"{ROLLOUT}.tensor_model_parallel_size", f"{ACTOR}.ulysses_sequence_parallel_size"
    size, shared_by = setting.shape.degree(tensor), setting.shape.sequence_parallel(ACTOR)
    if isinstance(heads, int) and heads % size:
        fitting = max(n for n in range(1, size + 1) if heads % n == 0 and setting.gpus % n == 0)
        yield Hit(
            key=tensor,
            found=str(size),
            message=f"allowed: a divisor of the model's {heads} attention heads",
            fix=Fix(set={tensor: fitting}),
        )
    if setting.shape.is_fsdp and isinstance(heads, int) and shared_by > 1:
        kv = kv_heads if isinstance(kv_heads, int) else heads
        if heads % shared_by or (kv % shared_by and shared_by % kv):
            message = f"allowed: a divisor of {heads} heads that fits {kv} key-value heads"
            yield Hit(key=share, found=str(shared_by), message=message)
    longest, positions = setting.shape.sequence_tokens, text.get("max_position_embeddings")
    if isinstance(positions, int) and longest is not None and longest > positions:
        yield Hit(
            key="data.max_response_length",
            found=f"prompt + response may have {longest} tokens",
            message=f"allowed: the model's max_position_embeddings = {positions}",
        )


_SOURCE = "verl_config/constraints.py names verl's own place of the check"

COMBINATION_RULES = (
    *(Rule(id_, Severity.ERROR, _SOURCE, partial(_hits, id_)) for id_ in CONSTRAINTS),
    Rule(
        "budget_without_chunked_prefill",
        Severity.ERROR,
        "A prompt must fit into one engine step (vllm_async_server.py:1113)",
        _without_chunks,
    ),
    Rule(
        "model_shape",
        Severity.ERROR,
        "vLLM splits heads over devices, Ulysses over ranks (vllm config/model.py:1168, monkey_patch.py:343)",
        _heads,
    ),
)
