"""Reading single values of a flat, resolved verl configuration for the forecast, with verl's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.records import Value

Flat = Mapping[str, Value]
"""A resolved verl configuration: dotted keys to values."""

ACTOR = "actor_rollout_ref.actor"
REFERENCE = "actor_rollout_ref.ref"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"
CRITIC = "critic"


def number(flat: Flat, key: str, default: float = 0.0) -> float:
    """The value as a number; `default` where it is missing, null or not a number."""
    value = flat.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return float(value)


def count(flat: Flat, key: str, default: int = 1) -> int:
    """The value as a whole number from 1 on; `default` where it is missing or anything else."""
    value = number(flat, key, float(default))
    return int(value) if value >= 1 else default


def switch(flat: Flat, key: str, default: bool = False) -> bool:
    """The value as a switch; `default` where it is missing or null."""
    value = flat.get(key)
    return default if value is None else value is True or str(value).lower() == "true"


def uses_reference(flat: Flat) -> bool:
    """A reference policy is evaluated (verl 0.9.1 trainer/ppo/utils.py need_reference_policy)."""
    return switch(flat, f"{ACTOR}.use_kl_loss") or switch(flat, "algorithm.use_kl_in_reward")


def uses_critic(flat: Flat) -> bool:
    """A critic is trained; the explicit switch wins (verl 0.9.1 trainer/ppo/utils.py:96)."""
    enable = flat.get("critic.enable")
    return bool(enable) if enable is not None else flat.get("algorithm.adv_estimator") == "gae"
