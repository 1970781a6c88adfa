"""Small search spaces, written as they read."""

from __future__ import annotations

from autotune.job.space_resolution import ResolvedParameter, ResolvedSpace
from autotune.records import Failure, FailureGroup

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."
DYNAMIC = ACTOR + "use_dynamic_bsz"
MICRO = ACTOR + "ppo_micro_batch_size_per_gpu"
BUDGET = ACTOR + "ppo_max_token_len_per_gpu"
OFFLOAD = ACTOR + "fsdp_config.optimizer_offload"
ENGINE = ROLLOUT + "gpu_memory_utilization"
SEQUENCES = ROLLOUT + "max_num_seqs"


def whole(key, low, high, **more):
    return ResolvedParameter(key=key, kind="int", low=low, high=high, **more)


def real(key, low, high, **more):
    return ResolvedParameter(key=key, kind="float", low=low, high=high, **more)


def choice(key, *choices, **more):
    return ResolvedParameter(key=key, kind="categorical", choices=choices, **more)


def space(*parameters, **facts):
    return ResolvedSpace(name="test", parameters=parameters, facts=facts)


def memory_space():
    """What survive searches: packing by tokens or by samples, the engine's share, offload."""
    return space(
        choice(DYNAMIC, False, True, current=False),
        whole(MICRO, 1, 32, log=True, when="not use_dynamic_bsz", current=16),
        whole(BUDGET, 1024, 16384, log=True, when="use_dynamic_bsz"),
        real(ENGINE, 0.3, 0.9, step=0.05, current=0.6),
        choice(OFFLOAD, True, False, current=False),
    )


def failure(kind, phase="update_actor", group=FailureGroup.CANDIDATE):
    return Failure(kind=kind, group=group, phase=phase, cause="told by a test")
