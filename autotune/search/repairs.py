"""What to change after a failure: the levers of each kind, in order, inside the stage's space.

The table is the project's failure taxonomy: move one lever, test again. A lever whose key the space
does not search is skipped; so is a repair that was tried before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.job.space_resolution import ResolvedParameter, ResolvedSpace
from autotune.records import Candidate, Failure, Overrides, Value
from autotune.search.moves import changed, is_among, scaled

_ACTOR = "actor_rollout_ref.actor."
_ROLLOUT = "actor_rollout_ref.rollout."
_MODEL = "actor_rollout_ref.model."


@dataclass(frozen=True)
class Lever:
    """One change: multiply a number by `factor`, or set `to`."""

    key: str
    why: str
    factor: float | None = None
    to: Value = None


_SMALLER_UPDATE = (
    Lever(_ACTOR + "ppo_micro_batch_size_per_gpu", "fewer sequences in one backward pass", factor=0.5),
    Lever(_ACTOR + "ppo_max_token_len_per_gpu", "fewer tokens in one backward pass", factor=0.5),
)
_CHEAPER_GRAPH = (
    Lever(_MODEL + "enable_gradient_checkpointing", "recomputes activations", to=True),
    Lever(_MODEL + "use_remove_padding", "does not compute on padding", to=True),
    Lever(_ACTOR + "entropy_from_logits_with_chunking", "never holds all logits twice", to=True),
)
_OFFLOAD = (
    Lever(_ACTOR + "fsdp_config.optimizer_offload", "optimizer state waits in host memory", to=True),
    Lever(_ACTOR + "fsdp_config.param_offload", "parameters wait in host memory", to=True),
)
_NO_OFFLOAD = (
    Lever(_ACTOR + "fsdp_config.param_offload", "less host memory", to=False),
    Lever(_ACTOR + "fsdp_config.optimizer_offload", "less host memory", to=False),
)
_SMALLER_LOG_PROB = (
    Lever(_ROLLOUT + "log_prob_micro_batch_size_per_gpu", "fewer sequences in one forward pass", factor=0.5),
    Lever(_ROLLOUT + "log_prob_max_token_len_per_gpu", "fewer tokens in one forward pass", factor=0.5),
    Lever(
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "fewer sequences in one pass", factor=0.5
    ),
    Lever("actor_rollout_ref.ref.log_prob_max_token_len_per_gpu", "fewer tokens in one pass", factor=0.5),
    # Spaces that search one micro batch for all passes do it through the actor's key.
    *_SMALLER_UPDATE,
    Lever(_ACTOR + "entropy_from_logits_with_chunking", "never holds all logits twice", to=True),
)
_SMALLER_CRITIC = (
    # verl 0.9.1's critic packs by tokens whatever its micro batches say (trainer_base.py:267).
    Lever("critic.ppo_infer_max_token_len_per_gpu", "fewer tokens in the critic's passes", factor=0.5),
    Lever("critic.model.enable_gradient_checkpointing", "recomputes activations", to=True),
    Lever("critic.fsdp.optimizer_offload", "optimizer state waits in host memory", to=True),
    Lever("critic.fsdp.param_offload", "parameters wait in host memory", to=True),
)
_SMALLER_ENGINE = Lever(
    _ROLLOUT + "gpu_memory_utilization", "leaves more of the device to training", factor=0.8
)
_LARGER_ENGINE = Lever(_ROLLOUT + "gpu_memory_utilization", "room for the KV cache", factor=1.25)
_FEWER_SEQUENCES = Lever(_ROLLOUT + "max_num_seqs", "fewer sequences decoded at once", factor=0.25)
_LARGER_BUDGET = Lever(_ACTOR + "ppo_max_token_len_per_gpu", "holds the longest sequence", factor=2.0)
_CALMER = (
    Lever(_ACTOR + "optim.lr", "smaller steps", factor=0.3),
    Lever(_ACTOR + "kl_loss_coef", "held closer to the reference policy", factor=3.0),
    Lever(_ACTOR + "clip_ratio_high", "smaller policy change per update", factor=0.5),
    Lever(_ACTOR + "optim.clip_grad", "smaller gradients", factor=0.1),
)

LEVERS: Mapping[str, tuple[Lever, ...]] = {
    "oom_gpu_actor_update": (*_SMALLER_UPDATE, *_CHEAPER_GRAPH, *_OFFLOAD),
    "oom_gpu_log_prob": _SMALLER_LOG_PROB,
    "oom_gpu_critic": _SMALLER_CRITIC,
    "oom_gpu_init": _OFFLOAD,
    "oom_gpu_rollout_wakeup": (
        _SMALLER_ENGINE,
        *_OFFLOAD,
        Lever(
            _ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes",
            "smaller transfer buffer",
            factor=0.5,
        ),
    ),
    "oom_gpu_weight_sync": (
        Lever(
            _ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes",
            "smaller transfer buffer",
            factor=0.5,
        ),
        _SMALLER_ENGINE,
        *_OFFLOAD,
    ),
    "oom_gpu_rollout_runtime": (
        _FEWER_SEQUENCES,
        Lever(_ROLLOUT + "max_num_batched_tokens", "fewer tokens per engine step", factor=0.5),
        _SMALLER_ENGINE,
    ),
    "oom_gpu_rollout_init": (
        _LARGER_ENGINE,
        Lever(_ROLLOUT + "tensor_model_parallel_size", "weights shared by more devices", factor=2.0),
        _FEWER_SEQUENCES,
    ),
    "oom_unattributed": (*_SMALLER_UPDATE, _SMALLER_ENGINE),
    "oom_host_ram": _NO_OFFLOAD,
    "oom_gpu_checkpoint": (*_SMALLER_UPDATE, _SMALLER_ENGINE),
    "nan_inf": _CALMER,
    "kl_drift": _CALMER,
    "entropy_explosion": (Lever(_ACTOR + "entropy_coeff", "no bonus for randomness", factor=0.1), *_CALMER),
    "reward_collapse": _CALMER,
    # The assertion about a token budget below the longest sequence is a validation text of verl.
    "config_validation": (_LARGER_BUDGET,),
    "data_length": (_LARGER_BUDGET,),
}


def repairs(
    failure: Failure, params: Overrides, space: ResolvedSpace, *, number: int, times_in_a_row: int = 1
) -> list[Candidate]:
    """Candidates that move one lever each, the most promising first.

    Args:
        failure: What happened to the trial.
        params: The failed trial's values.
        space: The stage's space; a repair never leaves it.
        number: The failed trial, named in the origin.
        times_in_a_row: How often this kind came in succession: the second time a number is moved
            twice as far in ratio, since one halving did not suffice.
    """
    # A key that verl's defaults lack is searched with a leading `+`.
    parameters = {parameter.key.lstrip("+"): parameter for parameter in space.active(params)}
    found: list[Candidate] = []
    for lever in LEVERS.get(failure.kind, ()):
        parameter = parameters.get(lever.key)
        if parameter is None or parameter.key not in params:
            continue
        before = params[parameter.key]
        value = _moved(lever, parameter, before, times_in_a_row)
        if value is None or value == before:
            continue
        found.append(
            Candidate(
                params=changed(space, params, parameter.key, value),
                origin=f"repair of #{number} ({failure.kind}): {lever.key} {before} -> {value}, {lever.why}",
            )
        )
    return found


def _moved(lever: Lever, parameter: ResolvedParameter, value: Value, times: int) -> Value | None:
    if lever.factor is not None:
        return scaled(parameter, value, lever.factor ** min(times, 2))
    if parameter.kind == "categorical" and lever.to in parameter.choices:
        return lever.to
    return None


def untried(candidates: Sequence[Candidate], tried: Sequence[Overrides]) -> Candidate | None:
    """The first candidate whose parameter values were not tried yet."""
    return next((candidate for candidate in candidates if not is_among(candidate.params, tried)), None)
