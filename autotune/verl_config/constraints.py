"""Combinations that verl refuses, or dies of later, decided from the configuration alone.

Each rule is a pure function of a TrainingShape with an id in RULES; verl's own place of the rule
(0.9.1) stands beside it. Rules about batches are here, about engines in engine_constraints.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autotune.errors import Fault
from autotune.records import Value
from autotune.verl_config.engine_constraints import ENGINE_RULES
from autotune.verl_config.training_shape import ACTOR, REF, ROLLOUT, TrainingShape

Rule = Callable[[TrainingShape], Iterable[Fault]]

_WHERE = "verl.overrides"


def violations(flat: Mapping[str, Value], gpus: int) -> list[Fault]:
    """Everything in the flat resolved configuration that verl cannot run on `gpus` GPUs; empty: nothing."""
    shape = TrainingShape(flat, gpus)
    return [fault for rule in RULES.values() for fault in rule(shape)]


def _gpus_agree(shape: TrainingShape) -> Iterable[Fault]:
    a_node, nodes = shape.count("trainer.n_gpus_per_node"), shape.degree("trainer.nnodes")
    if a_node is not None and a_node * nodes != shape.gpus:
        yield Fault(
            where=_WHERE,
            key="trainer.n_gpus_per_node",
            found=f"{a_node} * {nodes} nodes = {a_node * nodes} GPUs",
            allowed=f"the {shape.gpus} GPUs of a trial",
            next_step="make trainer.n_gpus_per_node and resources.gpus_per_trial agree; a trial has one node",
        )


def _batch_divides(shape: TrainingShape) -> Iterable[Fault]:
    prompts, repeats = shape.count("data.train_batch_size"), shape.count(f"{ROLLOUT}.n")
    if shape.packs_by_tokens or prompts is None or repeats is None:
        return
    unit, over = shape.gpus, f"{shape.gpus} GPUs"
    if shape.is_megatron:
        micro, ranks = shape.count(f"{ACTOR}.ppo_micro_batch_size_per_gpu"), shape.data_parallel
        if micro is None or ranks is None:
            return
        unit, over = ranks * micro, f"{ranks} ranks * {micro} samples of a micro batch"
    if prompts * repeats % unit:
        yield Fault(
            where=_WHERE,
            key="data.train_batch_size",
            found=f"{prompts} * {repeats} samples over {over} = {prompts * repeats / unit:.2f}",
            allowed=f"train_batch_size * rollout.n divisible by {unit}",
        )


def _mini_batch_fits(shape: TrainingShape) -> Iterable[Fault]:
    train = shape.count("data.train_batch_size")
    keys = [f"{ACTOR}.ppo_mini_batch_size"] + (["critic.ppo_mini_batch_size"] if shape.uses_critic else [])
    for key in keys:
        mini = shape.count(key)
        if train is not None and mini is not None and mini > train and not shape.packs_by_tokens:
            yield Fault(
                where=_WHERE, key=key, found=str(mini), allowed=f"at most data.train_batch_size = {train}"
            )


def _mini_batch_divides(shape: TrainingShape) -> Iterable[Fault]:
    repeats, ranks = shape.count(f"{ROLLOUT}.n"), shape.data_parallel
    over = f"over {ranks} data-parallel ranks"
    keys = [f"{ACTOR}.ppo_mini_batch_size"] + (["critic.ppo_mini_batch_size"] if shape.uses_critic else [])
    for key in keys:
        mini = shape.count(key)
        if mini is None or repeats is None or ranks is None or mini * repeats % ranks == 0:
            continue
        yield Fault(
            where=_WHERE,
            key=key,
            found=f"{mini} * {repeats} samples {over} = {mini * repeats / ranks:.2f}",
            allowed=f"ppo_mini_batch_size * rollout.n divisible by {ranks}",
        )


def _micro_batch_given(shape: TrainingShape) -> Iterable[Fault]:
    for key in _micro_batch_keys(shape):
        if shape.flat.get(key) is None:
            old = key.removesuffix("_per_gpu")
            found = "null" if shape.flat.get(old) is None else f"null, only the deprecated {old}"
            yield Fault(
                where=_WHERE,
                key=key,
                found=found,
                allowed="samples of a micro batch on one GPU, since use_dynamic_bsz is false",
                next_step=f"set {key}, or {ACTOR}.use_dynamic_bsz=true",
            )


def _micro_batch_divides(shape: TrainingShape) -> Iterable[Fault]:
    mini, ranks = shape.samples(shape.count(f"{ACTOR}.ppo_mini_batch_size")), shape.data_parallel
    actor, *log_probs = _micro_batch_keys(shape) or [""]
    shares = dict.fromkeys(log_probs, shape.batch_samples_per_rank)
    if mini and ranks and mini % ranks == 0:
        shares[actor] = mini // ranks
    for key, share in shares.items():
        micro = shape.count(key)
        if micro is None or share is None or key == "critic.ppo_micro_batch_size_per_gpu":
            continue
        if micro < 1 or share % micro:
            what = "of the mini batch" if key == actor else "of the batch"
            yield Fault(
                where=_WHERE,
                key=key,
                found=f"{micro} with {share} samples {what} on each of {ranks} ranks",
                allowed=f"a divisor of {share}",
            )


def _micro_batch_keys(shape: TrainingShape) -> list[str]:
    """The actor's key first; none where verl packs by tokens."""
    if shape.packs_by_tokens:
        return []
    keys = [f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"]
    if shape.uses_reference and not shape.uses_lora:
        keys.append(f"{REF}.log_prob_micro_batch_size_per_gpu")
    if shape.uses_critic and not shape.flat.get("critic.use_dynamic_bsz"):
        keys.append("critic.ppo_micro_batch_size_per_gpu")
    return keys


def _token_budget_holds_a_sequence(shape: TrainingShape) -> Iterable[Fault]:
    longest = shape.sequence_tokens
    if longest is None or not shape.packs_by_tokens:
        return
    keys = {f"{ACTOR}.ppo_max_token_len_per_gpu": ACTOR, f"{ROLLOUT}.log_prob_max_token_len_per_gpu": ACTOR}
    if shape.uses_reference and not shape.uses_lora:
        keys[f"{REF}.log_prob_max_token_len_per_gpu"] = REF
    for key, section in keys.items():
        budget, shared_by = shape.count(key), shape.sequence_parallel(section)
        if budget is not None and budget * shared_by < longest:
            yield Fault(
                where=_WHERE,
                key=key,
                found=f"{budget} tokens * {shared_by} GPUs a sequence = {budget * shared_by}",
                allowed=f"at least {-(-longest // shared_by)}: prompt + response may have {longest} tokens",
            )


def _packing_agrees(shape: TrainingShape) -> Iterable[Fault]:
    actor, rollout = (
        shape.flat.get(f"{ACTOR}.use_dynamic_bsz"),
        shape.flat.get(f"{ROLLOUT}.log_prob_use_dynamic_bsz"),
    )
    if bool(actor) != bool(rollout):
        yield Fault(
            where=_WHERE,
            key=f"{ROLLOUT}.log_prob_use_dynamic_bsz",
            found=str(rollout).lower(),
            allowed=f"{ACTOR}.use_dynamic_bsz, which is {str(actor).lower()}",
            next_step="leave the rollout's out: it follows the actor's",
        )


def _asynchronous_batch(shape: TrainingShape) -> Iterable[Fault]:
    if shape.flat.get("trainer.v1.trainer_mode") != "separate_async":
        return
    train, mini = shape.count("data.train_batch_size"), shape.count(f"{ACTOR}.ppo_mini_batch_size")
    every = shape.count("trainer.v1.separate_async.parameter_sync_step")
    if train is not None and mini is not None and every is not None and train != every * mini:
        yield Fault(
            where=_WHERE,
            key="data.train_batch_size",
            found=str(train),
            allowed=f"parameter_sync_step * ppo_mini_batch_size = {every} * {mini} = {every * mini}",
        )
    if not (shape.count(f"{ROLLOUT}.nnodes") or 0) > 0:
        yield Fault(
            where=_WHERE, key=f"{ROLLOUT}.nnodes", found="0", allowed="at least 1 with separate_async"
        )
    if shape.flat.get(f"{ROLLOUT}.checkpoint_engine.backend") == "naive":
        key = f"{ROLLOUT}.checkpoint_engine.backend"
        yield Fault(where=_WHERE, key=key, found="naive", allowed="nccl, nixl, mooncake with separate_async")


RULES: Mapping[str, Rule] = {
    "gpus_agree": _gpus_agree,  # single_controller/ray/base.py:240
    "batch_divides": _batch_divides,  # utils/config.py:101-127
    "mini_batch_fits": _mini_batch_fits,  # workers/config/actor.py:225
    "mini_batch_divides": _mini_batch_divides,  # workers/engine_workers.py:267
    "micro_batch_given": _micro_batch_given,  # workers/engine_workers.py:636
    "micro_batch_divides": _micro_batch_divides,  # workers/engine/utils.py:126
    "token_budget": _token_budget_holds_a_sequence,  # utils/seqlen_balancing.py:384
    "packing_agrees": _packing_agrees,  # workers/engine_workers.py:616
    "asynchronous_batch": _asynchronous_batch,  # trainer/ppo/v1/trainer_separate_async.py:45
    **ENGINE_RULES,
}
"""Rule id to rule, in the order in which faults are reported."""
