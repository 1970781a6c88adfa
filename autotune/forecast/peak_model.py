"""How far over the device a candidate that ran out of memory went: a line through the measured peaks.

Inside one phase the peak grows with the tokens of one micro batch, since activations and logits are
proportional to them and everything else stays. So peak = fixed + slope x tokens, fitted by least
squares over the trials of this job that came through the phase. The answer grades Optuna's
constraint; it never decides whether something is launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.records import Value

_ACTOR = "actor_rollout_ref.actor."
_ROLLOUT = "actor_rollout_ref.rollout."
_REFERENCE = "actor_rollout_ref.ref."

_SIZES: Mapping[str, tuple[str, str, str]] = {
    # phase: (dynamic switch, token budget, micro batch)
    "update_actor": (
        _ACTOR + "use_dynamic_bsz",
        _ACTOR + "ppo_max_token_len_per_gpu",
        _ACTOR + "ppo_micro_batch_size_per_gpu",
    ),
    "old_log_prob": (
        _ROLLOUT + "log_prob_use_dynamic_bsz",
        _ROLLOUT + "log_prob_max_token_len_per_gpu",
        _ROLLOUT + "log_prob_micro_batch_size_per_gpu",
    ),
    "ref_log_prob": (
        _REFERENCE + "log_prob_use_dynamic_bsz",
        _REFERENCE + "log_prob_max_token_len_per_gpu",
        _REFERENCE + "log_prob_micro_batch_size_per_gpu",
    ),
}
_CRITIC_PHASES = ("values", "update_critic")
_CRITIC_BUDGET = "critic.ppo_infer_max_token_len_per_gpu"
_CRITIC_BUDGET_TOKENS = 32768
"""Of verl's CriticConfig; the V1 trainer packs the critic by this budget alone (verl 0.9.1
trainer/ppo/v1/trainer_base.py:267), and verl's YAML does not have the key."""
_BARELY_OVER_FRAC = 1.02
"""What is assumed where nothing can be said but that it did not fit."""


def micro_batch_tokens(flat: Mapping[str, Value], phase: str) -> float | None:
    """Tokens of the largest micro batch that `phase` may see; None where the phase has no micro batch.

    Args:
        flat: The resolved verl configuration, dotted keys to values.
        phase: A phase name, e.g. `update_actor`.
    """
    sequence = _number(flat.get("data.max_prompt_length")) + _number(flat.get("data.max_response_length"))
    if phase in _CRITIC_PHASES:
        tokens = _number(flat.get(_CRITIC_BUDGET, _CRITIC_BUDGET_TOKENS))
    elif phase in _SIZES:
        dynamic, budget, micro = (flat.get(key) for key in _SIZES[phase])
        tokens = _number(budget) if dynamic else _number(micro) * sequence
    else:
        return None
    prompts = flat.get(_ACTOR + "ppo_mini_batch_size" if phase == "update_actor" else "data.train_batch_size")
    samples = _number(prompts) * max(_number(flat.get(_ROLLOUT + "n")), 1.0)
    ranks = max(_number(flat.get("trainer.n_gpus_per_node")), 1.0) * max(
        _number(flat.get("trainer.nnodes")), 1.0
    )
    # A micro batch is never larger than the rank's share of the batch that it is cut from.
    share = samples / ranks * sequence
    if tokens <= 0:
        return None
    return min(tokens, share) if share > 0 else tokens


def predicted_peak_frac(known: Sequence[tuple[float, float]], tokens: float | None) -> float:
    """Expected peak of a candidate that did not fit, as a share of the device; at least just over 1.

    Args:
        known: (tokens of one micro batch, measured peak share) of trials that came through the phase.
        tokens: The failed candidate's tokens; None where unknown.
    """
    if tokens is None or not known:
        return _BARELY_OVER_FRAC
    return max(_line(known, tokens), _BARELY_OVER_FRAC)


def _line(known: Sequence[tuple[float, float]], tokens: float) -> float:
    mean_tokens = sum(x for x, _ in known) / len(known)
    mean_peak = sum(y for _, y in known) / len(known)
    spread = sum((x - mean_tokens) ** 2 for x, _ in known)
    if spread == 0.0:
        # One size only: nothing is known of the fixed part, so all of it is taken to scale.
        return mean_peak * tokens / mean_tokens if mean_tokens > 0 else 0.0
    slope = sum((x - mean_tokens) * (y - mean_peak) for x, y in known) / spread
    return mean_peak + max(slope, 0.0) * (tokens - mean_tokens)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
