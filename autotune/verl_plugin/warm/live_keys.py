"""What a warm session changes between two candidates, and what makes a session of its own necessary.

Imported by the controller too, so: no verl, no torch. Each key below is read per step or per call, or is
set again by `candidate` and `workers`; the place in verl 0.9.1 where it is read stands beside it. A key
that is not listed is cold: a candidate that differs in it starts a new process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

VERL_RELEASE = "0.9.1"
"""The release whose trainer these keys were read in."""

_BATCHES = (
    # Set on the engines' configurations by `workers`, read per call (workers/engine_workers.py:352-408).
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.actor.ppo_infer_max_token_len_per_gpu",
    "actor_rollout_ref.actor.ppo_infer_micro_batch_size_per_gpu",
    "actor_rollout_ref.actor.use_dynamic_bsz",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_use_dynamic_bsz",
    "critic.ppo_micro_batch_size_per_gpu",
    "critic.forward_micro_batch_size_per_gpu",
    "critic.ppo_max_token_len_per_gpu",
    "critic.forward_max_token_len_per_gpu",
    "critic.ppo_infer_max_token_len_per_gpu",
    "critic.ppo_infer_micro_batch_size_per_gpu",
    "critic.use_dynamic_bsz",
)
_UPDATE = (
    # Read each step from the trainer's configuration (trainer/ppo/v1/trainer_base.py:1827-1866).
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_epochs",
    "actor_rollout_ref.actor.data_loader_seed",
    "actor_rollout_ref.actor.shuffle",
    "actor_rollout_ref.actor.calculate_entropy",
    "critic.ppo_mini_batch_size",
    "critic.ppo_epochs",
    "critic.data_loader_seed",
    "critic.shuffle",
    "trainer.critic_warmup",
)
_LOSS = (
    # The loss holds the actor's configuration and is built again (workers/engine_workers.py:638-646).
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.clip_ratio_low",
    "actor_rollout_ref.actor.clip_ratio_high",
    "actor_rollout_ref.actor.clip_ratio_c",
    "actor_rollout_ref.actor.entropy_coeff",
    "actor_rollout_ref.actor.kl_loss_coef",
    "actor_rollout_ref.actor.kl_loss_type",
    "actor_rollout_ref.actor.loss_agg_mode",
    "critic.cliprange_value",
    "critic.loss_agg_mode",
)
_ADVANTAGE = (
    # Read each step (trainer/ppo/v1/trainer_base.py:1743-1790); the KL controller is built again.
    "algorithm.gamma",
    "algorithm.lam",
    "algorithm.norm_adv_by_std_in_grpo",
    "algorithm.kl_penalty",
    "algorithm.kl_ctrl.kl_coef",
    "algorithm.kl_ctrl.target_kl",
    "algorithm.kl_ctrl.horizon",
)
_SAMPLING = (
    # The agent loops and the servers are given the configuration again (agent_loop_tq.py:59-115,
    # workers/rollout/vllm_rollout/vllm_async_server.py:624).
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.rollout.top_p",
    "actor_rollout_ref.rollout.top_k",
    "actor_rollout_ref.rollout.ignore_eos",
    "actor_rollout_ref.actor.rollout_n",
    "actor_rollout_ref.ref.rollout_n",
    "critic.rollout_n",
)
_DATA = (
    # The data loader and the replay buffer are built again for each candidate.
    "data.train_files",
    "data.train_batch_size",
    "data.shuffle",
    "data.seed",
    "trainer.total_training_steps",
    "trainer.val_before_train",
    "trainer.test_freq",
    "trainer.default_local_dir",
    "trainer.experiment_name",
    # Only names what a trace backend records; one session's traces all stand under its first candidate.
    "actor_rollout_ref.rollout.trace.experiment_name",
)
ENGINE_KEYS = (
    # Read when vLLM's servers start (workers/rollout/vllm_rollout/vllm_async_server.py:277-480).
    "actor_rollout_ref.rollout.gpu_memory_utilization",
    "actor_rollout_ref.rollout.max_num_seqs",
    "actor_rollout_ref.rollout.max_num_batched_tokens",
    "actor_rollout_ref.rollout.max_model_len",
    "actor_rollout_ref.rollout.enforce_eager",
    "actor_rollout_ref.rollout.cudagraph_capture_sizes",
    "actor_rollout_ref.rollout.enable_chunked_prefill",
    "actor_rollout_ref.rollout.enable_prefix_caching",
    "actor_rollout_ref.rollout.disable_log_stats",
)
"""A session starts new rollout engines where one of these changes, and keeps everything else."""
MODEL_KEYS = (
    # Read when the actor and the reference are built (workers/engine/fsdp/transformer_impl.py:207-480).
    "actor_rollout_ref.actor.fsdp_config.param_offload",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
    "actor_rollout_ref.actor.fsdp_config.offload_policy",
    "actor_rollout_ref.actor.fsdp_config.reshard_after_forward",
    "actor_rollout_ref.actor.fsdp_config.forward_prefetch",
    "actor_rollout_ref.ref.fsdp_config.param_offload",
    "actor_rollout_ref.ref.fsdp_config.optimizer_offload",
    "actor_rollout_ref.ref.fsdp_config.offload_policy",
    "actor_rollout_ref.ref.fsdp_config.reshard_after_forward",
    "actor_rollout_ref.ref.fsdp_config.forward_prefetch",
    "actor_rollout_ref.model.enable_gradient_checkpointing",
    "actor_rollout_ref.model.enable_activation_offload",
)
"""A session builds actor and reference anew where one of these changes; the processes stay."""
LIVE_KEYS = frozenset((*_BATCHES, *_UPDATE, *_LOSS, *_ADVANTAGE, *_SAMPLING, *_DATA))
_CHANGEABLE = LIVE_KEYS.union(ENGINE_KEYS, MODEL_KEYS)
LIVE_SECTIONS = (
    "actor_rollout_ref.actor.optim.",
    "critic.optim.",
    "actor_rollout_ref.actor.policy_loss.",
    "algorithm.rollout_correction.",
    "distillation.teacher_models.",
)
"""Every key below them is live: optimizer and scheduler are built anew, losses and corrections are read per
call; teachers repeat the rollout's sampling settings, and with distillation there is no session at all."""


def is_live(key: str) -> bool:
    """Whether a session changes `key` without a new process: as it runs, or by a new engine or model."""
    return key in _CHANGEABLE or key.startswith(LIVE_SECTIONS)


def cold_key(flat: Mapping[str, Any]) -> str:
    """What candidates of one session have in common: 16 hex digits over every key that is not live.

    Args:
        flat: The candidate's whole configuration, dotted names to values.
    """
    cold = {key: value for key, value in flat.items() if not is_live(key)}
    text = json.dumps(cold, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cold_only(flat: Mapping[str, Any]) -> str | None:
    """Why this configuration cannot run in a session at all; None where it can."""
    for key, allowed in _SUPPORTED.items():
        if flat.get(key) not in allowed:
            return f"warm sessions are not built for {key}={flat.get(key)}"
    for key in _UNSUPPORTED:
        if flat.get(key):
            return f"warm sessions are not built for {key}={flat[key]}"
    for key in _WHOLE_CHECKPOINTS:
        contents = flat.get(key)
        if isinstance(contents, (list, tuple)) and not {"model", "optimizer", "extra"} <= set(contents):
            return f"warm sessions need model, optimizer and extra in {key}"
    return None


_SUPPORTED: Mapping[str, tuple[object, ...]] = {
    "trainer.use_v1": (True,),
    "trainer.v1.trainer_mode": ("sync",),
    "actor_rollout_ref.actor.strategy": ("fsdp", "fsdp2"),
    "actor_rollout_ref.rollout.name": ("vllm",),
}
_UNSUPPORTED = (
    "actor_rollout_ref.model.lora_rank",
    "actor_rollout_ref.model.lora.rank",
    "actor_rollout_ref.model.lora_adapter_path",
    "algorithm.filter_groups.enable",
    "distillation.enabled",
    "reward.reward_model.enable",
    "skip.rollout_tq.enable",
    "trainer.v1.sampler.sync_refill_failed_groups",
    "trainer.v1.sampler.custom_sampler.path",
)
"""Adapters are synchronized in another way; the others leave work in flight between two candidates."""
_WHOLE_CHECKPOINTS = (
    "actor_rollout_ref.actor.checkpoint.save_contents",
    "actor_rollout_ref.actor.checkpoint.load_contents",
    "critic.checkpoint.save_contents",
    "critic.checkpoint.load_contents",
)
"""The start that each candidate goes back to is a checkpoint."""
