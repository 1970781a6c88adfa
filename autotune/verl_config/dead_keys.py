"""verl's keys that nothing reads: searching them wastes trials, setting them misleads."""

from __future__ import annotations

from collections.abc import Mapping

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"

DEAD_KEYS: Mapping[str, str] = {
    f"{_ACTOR}.grad_clip": f"not read since verl 0.8; {_ACTOR}.optim.clip_grad is",
    f"{_ACTOR}.clip_ratio": (
        f"no effect while {_ACTOR}.clip_ratio_low and clip_ratio_high are set, as verl does; search those"
    ),
    f"{_ACTOR}.use_torch_compile": f"not read; {_ACTOR}.fsdp_config.use_torch_compile is",
    "actor_rollout_ref.nccl_timeout": "not read; torch's own time-out holds (NCCL 10 min, gloo 30 min)",
    "actor_rollout_ref.ref.fsdp_config.param_offload": (
        "no effect on FSDP: the reference model is always offloaded to the CPU"
    ),
    f"{_ROLLOUT}.over_sample_rate": "not read by verl 0.9",
    f"{_ROLLOUT}.multi_stage_wake_up": "not read by verl 0.9",
    f"{_ROLLOUT}.agent.custom_async_server": "not read by the V1 trainer",
    f"{_ROLLOUT}.checkpoint_manager_class": "not read by the V1 trainer",
    "trainer.balance_batch": "not read by the V1 trainer, which always balances",
    "trainer.ray_wait_register_center_timeout": "not read by the V1 trainer",
    "trainer.esi_redundant_time": "not read by the V1 trainer",
    "critic.grad_clip": "not read since verl 0.8; critic.optim.clip_grad is",
    "critic.ppo_max_token_len_per_gpu": (
        "not read by the V1 trainer, which takes +critic.ppo_infer_max_token_len_per_gpu for both passes "
        "(verl 0.9.1 trainer/ppo/v1/trainer_base.py:267)"
    ),
    "critic.forward_max_token_len_per_gpu": "not read; +critic.ppo_infer_max_token_len_per_gpu is",
    "critic.ppo_micro_batch_size_per_gpu": (
        "checked but not used by the V1 trainer: its critic always packs by tokens, up to "
        "+critic.ppo_infer_max_token_len_per_gpu"
    ),
    "critic.forward_micro_batch_size": "not read by the V1 trainer",
    "critic.forward_micro_batch_size_per_gpu": "not read by the V1 trainer",
    "custom_reward_function.path": "ignored since verl 0.9.1; reward.custom_reward_function.path is read",
    "custom_reward_function.name": "ignored since verl 0.9.1; reward.custom_reward_function.name is read",
}
"""Dotted key to why it is dead and what is live instead (verl 0.9.1, FSDP, V1 trainer)."""

DEAD_SECTIONS: Mapping[str, str] = {
    "reward_model": "ignored since verl 0.9.1; the keys under reward.reward_model are read",
    "custom_reward_function": "ignored since verl 0.9.1; reward.custom_reward_function is read",
}
"""Whole sections that nothing reads."""


def why_dead(key: str) -> str | None:
    """Why `key` (a leading `+` is passed over) has no effect; None where it is live."""
    bare = key.lstrip("+")
    if bare in DEAD_KEYS:
        return DEAD_KEYS[bare]
    parents = [dead for dead in (*DEAD_KEYS, *DEAD_SECTIONS) if bare.startswith(f"{dead}.")]
    return {**DEAD_KEYS, **DEAD_SECTIONS}[max(parents, key=len)] if parents else None
