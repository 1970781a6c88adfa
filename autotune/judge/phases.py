"""The phases of a verl run, and what console lines, timers and call names say about them.

A run passes the start phases once, then the step phases over and over. Names follow verl's own
timers (verl 0.9.1 trainer/ppo/v1/trainer_base.py:473-609).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

START_PHASES: tuple[str, ...] = (
    "launch",
    "config",
    "ray_start",
    "model_load",
    "rollout_start",
    "ready",
)
"""Before the first step, in order. `ready` includes the first weight sync."""

STEP_PHASES: tuple[str, ...] = (
    "rollout",
    "reward",
    "old_log_prob",
    "ref_log_prob",
    "values",
    "advantage",
    "update_critic",
    "update_actor",
    "weight_sync",
    "checkpoint",
    "validation",
)

PHASES: tuple[str, ...] = (*START_PHASES, *STEP_PHASES, "done")

_MILESTONES: tuple[tuple[str, str], ...] = (
    ("[validate_config] All configuration checks passed", "config"),
    ("ray init kwargs:", "ray_start"),
    ("worker group kwargs:", "model_load"),
    ("actor and ref model engine initialized", "rollout_start"),
    ("checkpoint engine manager initialized", "ready"),
    ("all initialize finished, ready to fit", "ready"),
)
_TRAINING_PROGRESS = re.compile(r"Training Progress:.*?(\d+)/(\d+) \[")

_TIMERS: Mapping[str, str] = {
    "gen": "rollout",
    "reward": "reward",
    "old_log_prob": "old_log_prob",
    "ref": "ref_log_prob",
    "values": "values",
    "adv": "advantage",
    "update_critic": "update_critic",
    "update_actor": "update_actor",
    "update_weights": "weight_sync",
    "save_checkpoint": "checkpoint",
    "testing": "validation",
}

_CALLS: Mapping[str, str] = {
    "validate_config": "config",
    "init_model": "model_load",
    "_build_model_optimizer": "model_load",
    "load_checkpoint": "model_load",
    "launch_server": "rollout_start",
    "launch_servers": "rollout_start",
    "init_engine": "rollout_start",
    "profile_run": "rollout_start",
    "_dummy_sampler_run": "rollout_start",
    "_initialize_kv_caches": "rollout_start",
    "initialize_kv_cache": "rollout_start",
    "initialize_from_config": "rollout_start",
    "determine_available_memory": "rollout_start",
    "determine_num_available_blocks": "rollout_start",
    "compile_or_warm_up_model": "rollout_start",
    "capture_model": "rollout_start",
    "generate": "rollout",
    "generate_sequences": "rollout",
    "_run_agent_loop": "rollout",
    "execute_model": "rollout",
    "sample_tokens": "rollout",
    "compute_score": "reward",
    "compute_rm_score": "reward",
    "_compute_reward_colocate": "reward",
    "compute_log_prob": "old_log_prob",
    "_compute_old_log_prob": "old_log_prob",
    "compute_ref_log_prob": "ref_log_prob",
    "_compute_ref_log_prob": "ref_log_prob",
    "compute_values": "values",
    "_compute_values": "values",
    "critic_infer_batch": "values",
    "compute_advantage": "advantage",
    "_compute_advantage": "advantage",
    "update_critic": "update_critic",
    "_update_critic": "update_critic",
    "critic_train_mini_batch": "update_critic",
    "update_actor": "update_actor",
    "_update_actor": "update_actor",
    "update_policy": "update_actor",
    "update_weights": "weight_sync",
    "_update_weights": "weight_sync",
    "update_weights_from_ipc": "weight_sync",
    "receive_weights": "weight_sync",
    "sync_rollout_weights": "weight_sync",
    "rollout_mode": "weight_sync",
    "wake_up": "weight_sync",
    "resume_memory_occupation": "weight_sync",
    "resume_kv_cache": "weight_sync",
    "save_checkpoint": "checkpoint",
    "_save_checkpoint": "checkpoint",
    "_validate": "validation",
}
"""Function names, from traceback frames and Ray method names, that belong to one phase only."""

_WORKER_PREFIX = re.compile(r"^(?:actor_rollout_ref|actor_rollout|actor|rollout|ref|critic)_(?=\w)")


def milestone(line: str) -> str | None:
    """The phase that begins with this console line, or None.

    Only the start-up and the end are told by the console; the step's own phases come from marks.
    """
    for text, phase in _MILESTONES:
        if text in line:
            return phase
    # The bar may be redrawn several times in one line; its last state counts.
    bars = _TRAINING_PROGRESS.findall(line)
    if not bars:
        return None
    done, total = bars[-1]
    return "done" if done == total else "rollout"


def from_timer(name: str) -> str | None:
    """The phase of one of verl's `marked_timer` names; None for `step` and unknown ones."""
    return _TIMERS.get(name)


def from_call(function: str) -> str | None:
    """The phase that a function or remote method belongs to, or None.

    Ray method names carry their worker: `actor_rollout_ref_compute_log_prob`, `critic_infer_batch`.
    """
    return _CALLS.get(function) or _CALLS.get(_WORKER_PREFIX.sub("", function))


def is_start(phase: str) -> bool:
    """Whether the phase lies before the first step."""
    return phase in START_PHASES
