"""Tokens that one GPU holds at once in each phase: micro batches, token budgets, the rank's share."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.forecast.engine_shape import EngineShape, actor_shape, critic_shape
from autotune.forecast.keys import ACTOR, CRITIC, REFERENCE, ROLLOUT, Flat, count, number, switch
from autotune.forecast.lengths import Lengths, fullest_tokens, limits

_CRITIC_BUDGET_TOKENS = 32768
"""verl's CriticConfig; the V1 trainer packs the critic by this budget alone (verl 0.9.1
trainer/ppo/v1/trainer_base.py:267-268)."""


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """What one GPU processes in one forward pass."""

    tokens: float
    """On this GPU: of all samples, over the ranks that share them."""
    sequence_tokens: float
    """Of one sample as attention sees it, on all its ranks."""
    accumulates: bool
    """The optimizer step takes several micro batches."""


@dataclass(frozen=True)
class _Sizes:
    dynamic: str
    budget: str
    micro: str
    micro_global: str


_SIZES = {
    "update_actor": _Sizes(
        f"{ACTOR}.use_dynamic_bsz",
        f"{ACTOR}.ppo_max_token_len_per_gpu",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{ACTOR}.ppo_micro_batch_size",
    ),
    "old_log_prob": _Sizes(
        f"{ROLLOUT}.log_prob_use_dynamic_bsz",
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        f"{ROLLOUT}.log_prob_micro_batch_size",
    ),
    "ref_log_prob": _Sizes(
        f"{REFERENCE}.log_prob_use_dynamic_bsz",
        f"{REFERENCE}.log_prob_max_token_len_per_gpu",
        f"{REFERENCE}.log_prob_micro_batch_size_per_gpu",
        f"{REFERENCE}.log_prob_micro_batch_size",
    ),
    "update_critic": _Sizes(
        f"{CRITIC}.use_dynamic_bsz",
        f"{CRITIC}.ppo_infer_max_token_len_per_gpu",
        f"{CRITIC}.ppo_micro_batch_size_per_gpu",
        f"{CRITIC}.ppo_micro_batch_size",
    ),
    "values": _Sizes(
        f"{CRITIC}.use_dynamic_bsz",
        f"{CRITIC}.ppo_infer_max_token_len_per_gpu",
        f"{CRITIC}.forward_micro_batch_size_per_gpu",
        f"{CRITIC}.forward_micro_batch_size",
    ),
}


def micro_batch(flat: Flat, phase: str, shape: EngineShape, lengths: Lengths) -> MicroBatch:
    """The fullest micro batch of `phase`, on one GPU."""
    sizes = _SIZES[phase]
    share = share_samples(flat, phase, shape)
    padded = not shape.remove_padding
    whole = fullest_tokens(flat, lengths, share, padded=padded)
    if switch(flat, sizes.dynamic, switch(flat, _SIZES["update_actor"].dynamic)):
        default = _CRITIC_BUDGET_TOKENS if phase in ("update_critic", "values") else 16384
        # The budget is per GPU; the ranks of one sample pool theirs (verl 0.9.1 workers/engine/utils.py:108).
        tokens = min(number(flat, sizes.budget, default) * shape.ranks_of_a_sample, whole)
    else:
        samples = min(_micro_samples(flat, sizes, shape, share), share)
        tokens = fullest_tokens(flat, lengths, samples, padded=padded)
    longest = min(sum(limits(flat)), lengths.sample_tokens * (1.0 + 3.0 * lengths.spread))
    return MicroBatch(
        tokens=tokens / shape.ranks_of_a_sample, sequence_tokens=longest, accumulates=tokens < whole
    )


def largest_micro_batch_tokens(flat: Flat, phase: str, gpus: int) -> float | None:
    """Tokens of the largest micro batch that `phase` may ever see; None where it has no micro batch."""
    if phase not in _SIZES:
        return None
    shape = (critic_shape if phase in ("update_critic", "values") else actor_shape)(flat, gpus)
    return micro_batch(flat, phase, shape, Lengths.at_limit(flat)).tokens


def share_samples(flat: Flat, phase: str, shape: EngineShape) -> float:
    """Samples of one optimizer step (or of one whole batch) that one data-parallel rank gets."""
    prompts = {
        "update_actor": f"{ACTOR}.ppo_mini_batch_size",
        "update_critic": f"{CRITIC}.ppo_mini_batch_size",
    }.get(phase, "data.train_batch_size")
    fallback = count(flat, f"{ACTOR}.ppo_mini_batch_size", 256)
    return max(1.0, count(flat, prompts, fallback) * count(flat, f"{ROLLOUT}.n") / shape.data_parallel)


def _micro_samples(flat: Flat, sizes: _Sizes, shape: EngineShape, share: float) -> float:
    per_gpu = number(flat, sizes.micro)
    if per_gpu >= 1:
        return per_gpu
    whole = number(flat, sizes.micro_global)
    if whole >= 1:
        # Up to verl 0.8 the older key counts over all ranks (v0.3.0 workers/fsdp_workers.py:115).
        return max(1.0, whole // shape.data_parallel)
    actor = number(flat, _SIZES["update_actor"].micro)
    return actor if actor >= 1 else share
