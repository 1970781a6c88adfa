"""The failure kinds: who is at fault, how often to try again, and a sentence for people.

The names are the vocabulary of the failure taxonomy, used alike in code, database, CLI and docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from autotune.records import FailureGroup


class FailureKind(str, Enum):
    """Name of what ended an attempt."""

    OOM_GPU_INIT = "oom_gpu_init"
    OOM_GPU_ROLLOUT_INIT = "oom_gpu_rollout_init"
    OOM_GPU_ROLLOUT_WAKEUP = "oom_gpu_rollout_wakeup"
    OOM_GPU_ROLLOUT_RUNTIME = "oom_gpu_rollout_runtime"
    OOM_GPU_LOG_PROB = "oom_gpu_log_prob"
    OOM_GPU_CRITIC = "oom_gpu_critic"
    OOM_GPU_ACTOR_UPDATE = "oom_gpu_actor_update"
    OOM_GPU_WEIGHT_SYNC = "oom_gpu_weight_sync"
    OOM_GPU_CHECKPOINT = "oom_gpu_checkpoint"
    OOM_GPU_LEAK = "oom_gpu_leak"
    OOM_UNATTRIBUTED = "oom_unattributed"
    OOM_HOST_RAM = "oom_host_ram"
    OOM_HOST_CKPT = "oom_host_ckpt"
    CONFIG_VALIDATION = "config_validation"
    DATA_LENGTH = "data_length"
    TRAIN_INFER_MISMATCH = "train_infer_mismatch"
    NAN_INF = "nan_inf"
    KL_DRIFT = "kl_drift"
    ENTROPY_EXPLOSION = "entropy_explosion"
    REWARD_COLLAPSE = "reward_collapse"
    ROLLOUT_ERROR = "rollout_error"
    HANG_INIT = "hang_init"
    HANG_VLLM_INIT = "hang_vllm_init"
    HANG_ROLLOUT = "hang_rollout"
    HANG_REWARD = "hang_reward"
    HANG_LOG_PROB = "hang_log_prob"
    HANG_UPDATE = "hang_update"
    HANG_WEIGHT_SYNC = "hang_weight_sync"
    HANG_CHECKPOINT = "hang_checkpoint"
    HANG_VALIDATION = "hang_validation"
    WALL_LIMIT = "wall_limit"
    PORT_CONFLICT = "port_conflict"
    LEFTOVER_PROCESSES = "leftover_processes"
    SHARED_GPU = "shared_gpu"
    RAY_INIT = "ray_init"
    RAY_RESOURCES = "ray_resources"
    RAY_ACTOR_DEATH = "ray_actor_death"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_ERROR = "nccl_error"
    CUDA_FAULT = "cuda_fault"
    DISK_FULL = "disk_full"
    SHM_OR_HOST_OOM = "shm_or_host_oom"
    LOST = "lost"
    UNKNOWN = "unknown"
    REWARD_FUNCTION = "reward_function"
    REWARD_ZERO = "reward_zero"
    INPUT_MISSING = "input_missing"
    TOKENIZER = "tokenizer"
    IMPORT_ERROR = "import_error"
    NETWORK = "network"


@dataclass(frozen=True)
class KindFacts:
    """What follows from a failure kind."""

    group: FailureGroup
    retries: int
    """How often the same configuration is tried again."""
    sentence: str
    """The cause in one sentence; `{phase}` is filled in."""

    @property
    def teaches(self) -> bool:
        """Whether the sampler is told: only what the candidate itself did."""
        return self.group is FailureGroup.CANDIDATE


def _candidate(sentence: str) -> KindFacts:
    return KindFacts(FailureGroup.CANDIDATE, 0, sentence)


def _machine(sentence: str, retries: int = 1) -> KindFacts:
    return KindFacts(FailureGroup.INFRASTRUCTURE, retries, sentence)


def _user(sentence: str) -> KindFacts:
    return KindFacts(FailureGroup.USER, 0, sentence)


_K = FailureKind

_FACTS: Mapping[FailureKind, KindFacts] = {
    _K.OOM_GPU_INIT: _candidate("Device memory ran out while the training model was loaded ({phase})."),
    _K.OOM_GPU_ROLLOUT_INIT: _candidate(
        "The rollout engine did not get the device memory it needs to start: weights, warm-up or KV cache."
    ),
    _K.OOM_GPU_ROLLOUT_WAKEUP: _candidate(
        "The rollout engine could not map its memory back while training memory was still resident."
    ),
    _K.OOM_GPU_ROLLOUT_RUNTIME: _candidate("Device memory ran out while responses were generated."),
    _K.OOM_GPU_LOG_PROB: _candidate("Device memory ran out in a log-probability forward pass ({phase})."),
    _K.OOM_GPU_CRITIC: _candidate("Device memory ran out in the critic ({phase})."),
    _K.OOM_GPU_ACTOR_UPDATE: _candidate("Device memory ran out in the actor's update."),
    _K.OOM_GPU_WEIGHT_SYNC: _candidate(
        "Device memory ran out while weights were sent to the rollout engine."
    ),
    _K.OOM_GPU_CHECKPOINT: _candidate("Device memory ran out while a checkpoint was saved."),
    _K.OOM_GPU_LEAK: _candidate("Device memory grew from step to step."),
    _K.OOM_UNATTRIBUTED: _candidate("Memory ran out; the log does not say in which phase ({phase})."),
    _K.OOM_HOST_RAM: _candidate("The host ran out of memory ({phase})."),
    _K.OOM_HOST_CKPT: _candidate("The host ran out of memory while a checkpoint was saved."),
    _K.CONFIG_VALIDATION: _candidate("verl, vLLM or Hydra refuses this combination of values ({phase})."),
    _K.DATA_LENGTH: _candidate("A sample is longer than the configured lengths allow."),
    _K.TRAIN_INFER_MISMATCH: _candidate(
        "Rollout and trainer probabilities differ, or the correction for that cannot work as configured."
    ),
    _K.NAN_INF: _candidate("A reward, loss or gradient became NaN or infinite."),
    _K.KL_DRIFT: _candidate("The policy drifted too far from its reference."),
    _K.ENTROPY_EXPLOSION: _candidate("The policy's entropy exploded."),
    _K.REWARD_COLLAPSE: _candidate("The reward fell to zero after it had been above."),
    _K.ROLLOUT_ERROR: _candidate("The rollout engine stopped with an error ({phase})."),
    # A start that hangs is tried once more: registration races look the same as a bad configuration.
    _K.HANG_INIT: _machine("verl gave no sign of life while it started ({phase})."),
    _K.HANG_VLLM_INIT: _machine("The rollout engine gave no sign of life while it started."),
    _K.HANG_ROLLOUT: _candidate("Generation stopped making progress."),
    _K.HANG_REWARD: _candidate("Reward scoring stopped making progress."),
    _K.HANG_LOG_PROB: _candidate("A log-probability pass stopped making progress ({phase})."),
    _K.HANG_UPDATE: _candidate("The update stopped making progress ({phase})."),
    _K.HANG_WEIGHT_SYNC: _candidate(
        "Weight transfer to the rollout engine failed, and the sender waits for ever."
    ),
    _K.HANG_CHECKPOINT: _candidate("Saving a checkpoint stopped making progress."),
    _K.HANG_VALIDATION: _candidate("Validation stopped making progress."),
    _K.WALL_LIMIT: _candidate("The attempt ran longer than its wall-time limit ({phase})."),
    _K.PORT_CONFLICT: _machine("A network port was taken between choosing and using it.", 2),
    _K.LEFTOVER_PROCESSES: _machine("Processes of an earlier run still hold device memory."),
    _K.SHARED_GPU: _machine("Somebody else holds memory on the device."),
    _K.RAY_INIT: _machine("Ray did not start or a worker could not register with it."),
    _K.RAY_RESOURCES: _machine("Ray has fewer free devices than the run asks for."),
    _K.RAY_ACTOR_DEATH: _machine("A worker process died without saying why ({phase})."),
    _K.NCCL_TIMEOUT: _machine(
        "The first collective operations timed out: network or device-to-device transport."
    ),
    _K.NCCL_ERROR: _machine("NCCL reported an error: network or device-to-device transport."),
    _K.CUDA_FAULT: _machine("The device or its driver reported a fault."),
    _K.DISK_FULL: _machine("A disk is full.", 0),
    _K.SHM_OR_HOST_OOM: _machine("Shared memory of the host ran out."),
    _K.LOST: _machine("The node or the runner vanished while the attempt ran."),
    # No evidence against the candidate: one more attempt costs less than a wall that is not there.
    _K.UNKNOWN: _machine("verl ended before the asked steps and its log names no cause ({phase})."),
    _K.REWARD_FUNCTION: _user("The reward function raised an exception."),
    _K.REWARD_ZERO: _user("Every reward was zero from the first step on; nothing can be learned from it."),
    _K.INPUT_MISSING: _user("A model, data or code path does not exist."),
    _K.TOKENIZER: _user("The tokenizer or the model's own code cannot be loaded."),
    _K.IMPORT_ERROR: _user("A Python package is missing or broken in the verl environment."),
    _K.NETWORK: _user("A download or service could not be reached."),
}

KINDS: Mapping[str, KindFacts] = {kind.value: kind_facts for kind, kind_facts in _FACTS.items()}
"""Every failure kind by name."""

_OOM_BY_PHASE: Mapping[str, FailureKind] = {
    "launch": _K.OOM_GPU_INIT,
    "config": _K.OOM_GPU_INIT,
    "ray_start": _K.OOM_GPU_INIT,
    "model_load": _K.OOM_GPU_INIT,
    "rollout_start": _K.OOM_GPU_ROLLOUT_INIT,
    "ready": _K.OOM_GPU_ROLLOUT_WAKEUP,
    "rollout": _K.OOM_GPU_ROLLOUT_RUNTIME,
    "old_log_prob": _K.OOM_GPU_LOG_PROB,
    "ref_log_prob": _K.OOM_GPU_LOG_PROB,
    "values": _K.OOM_GPU_CRITIC,
    "update_critic": _K.OOM_GPU_CRITIC,
    "update_actor": _K.OOM_GPU_ACTOR_UPDATE,
    "weight_sync": _K.OOM_GPU_ROLLOUT_WAKEUP,
    "checkpoint": _K.OOM_GPU_CHECKPOINT,
    "validation": _K.OOM_GPU_ROLLOUT_RUNTIME,
}

_HANG_BY_PHASE: Mapping[str, FailureKind] = {
    "rollout_start": _K.HANG_VLLM_INIT,
    "ready": _K.HANG_WEIGHT_SYNC,
    "weight_sync": _K.HANG_WEIGHT_SYNC,
    "rollout": _K.HANG_ROLLOUT,
    "reward": _K.HANG_REWARD,
    "old_log_prob": _K.HANG_LOG_PROB,
    "ref_log_prob": _K.HANG_LOG_PROB,
    "values": _K.HANG_LOG_PROB,
    "advantage": _K.HANG_UPDATE,
    "update_critic": _K.HANG_UPDATE,
    "update_actor": _K.HANG_UPDATE,
    "checkpoint": _K.HANG_CHECKPOINT,
    "validation": _K.HANG_VALIDATION,
    "done": _K.HANG_UPDATE,
}


def oom_kind(phase: str) -> str:
    """The kind of a device out-of-memory error in this phase (on CPU: of a capped worker)."""
    return _OOM_BY_PHASE.get(phase, _K.OOM_UNATTRIBUTED).value


def hang_kind(phase: str) -> str:
    """The kind of a silence in this phase."""
    return _HANG_BY_PHASE.get(phase, _K.HANG_INIT).value


def facts(kind: str) -> KindFacts:
    """What follows from the kind; an unheard-of name is treated as `unknown`."""
    return KINDS.get(kind, _FACTS[_K.UNKNOWN])
