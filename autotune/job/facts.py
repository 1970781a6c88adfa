"""What expressions in a search space may name: figures of one job, from its resolved verl configuration."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import Fault, VerlConfigError
from autotune.records import Value

FACTS: Mapping[str, str] = {
    "prompt_tokens": "data.max_prompt_length",
    "response_tokens": "data.max_response_length",
    "sequence_tokens": "prompt_tokens + response_tokens",
    "gpus": "GPUs of one trial (CPU: data-parallel ranks)",
    "data_parallel_ranks": "gpus over the actor's sequence-, tensor-, pipeline- and context-parallel sizes",
    "train_batch": "data.train_batch_size, in prompts",
    "mini_batch": "actor.ppo_mini_batch_size, in prompts",
    "rollout_n": "responses to a prompt",
    "samples": "train_batch * rollout_n",
    "samples_per_gpu": "samples of a step on one data-parallel rank",
    "mini_samples_per_gpu": "samples of one optimizer step on one data-parallel rank",
    "use_dynamic_bsz": "actor.use_dynamic_bsz",
    "use_kl_loss": "actor.use_kl_loss",
    "use_kl_in_reward": "algorithm.use_kl_in_reward",
    "uses_reference": "a reference policy is loaded (use_kl_loss or use_kl_in_reward)",
    "uses_critic": "a critic is trained",
}
"""Name -> what it is. The names are a promise to everybody's search spaces."""

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"


def job_facts(verl: Mapping[str, Value], gpus: int) -> dict[str, Value]:
    """The value of each name of `FACTS`, from a flat, resolved verl configuration (defaults included).

    Raises:
        VerlConfigError: a length or batch size is missing or no positive whole number; all at once.
    """
    counts = {
        key: verl.get(key)
        for key in (
            "data.max_prompt_length",
            "data.max_response_length",
            "data.train_batch_size",
            f"{_ACTOR}.ppo_mini_batch_size",
            f"{_ROLLOUT}.n",
        )
    }
    faults = [_count_fault(key, value) for key, value in counts.items() if not _is_count(value)]
    if faults:
        raise VerlConfigError(faults)
    prompt, response, train_batch, mini_batch, n = (_count(verl, key) for key in counts)
    use_kl_loss = bool(verl.get(f"{_ACTOR}.use_kl_loss"))
    use_kl_in_reward = bool(verl.get("algorithm.use_kl_in_reward"))
    ranks = max(1, gpus // _parallel_size(verl))
    return {
        "prompt_tokens": prompt,
        "response_tokens": response,
        "sequence_tokens": prompt + response,
        "gpus": gpus,
        "data_parallel_ranks": ranks,
        "train_batch": train_batch,
        "mini_batch": mini_batch,
        "rollout_n": n,
        "samples": train_batch * n,
        "samples_per_gpu": train_batch * n // ranks,
        "mini_samples_per_gpu": mini_batch * n // ranks,
        "use_dynamic_bsz": bool(verl.get(f"{_ACTOR}.use_dynamic_bsz")),
        "use_kl_loss": use_kl_loss,
        "use_kl_in_reward": use_kl_in_reward,
        "uses_reference": use_kl_loss or use_kl_in_reward,
        "uses_critic": _uses_critic(verl),
    }


def _uses_critic(verl: Mapping[str, Value]) -> bool:
    """As verl 0.9.1 trainer/ppo/utils.py:96 decides it: the explicit switch wins."""
    enable = verl.get("critic.enable")
    return bool(enable) if enable is not None else verl.get("algorithm.adv_estimator") == "gae"


def _parallel_size(verl: Mapping[str, Value]) -> int:
    """GPUs that work on one sample together, in the actor's training engine."""
    if verl.get(f"{_ACTOR}.strategy") == "megatron":
        sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
        keys = [f"{_ACTOR}.megatron.{size}" for size in sizes]
    else:
        keys = [f"{_ACTOR}.ulysses_sequence_parallel_size"]
    size = 1
    for key in keys:
        size *= _count(verl, key)
    return size


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _count(verl: Mapping[str, Value], key: str) -> int:
    value = verl.get(key)
    return value if isinstance(value, int) and _is_count(value) else 1


def _count_fault(key: str, value: Value) -> Fault:
    return Fault(
        where="verl configuration",
        key=key,
        found="nothing" if value is None else repr(value),
        allowed="a whole number from 1 on",
        next_step=f"set it in the job file: verl.overrides[{key}]",
    )
