"""Keys that verl has and does not read, or no longer reads: setting them changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.job.dead_keys import DEAD_KEYS
from autotune.records import Value
from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity, shown

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_NOT_FIXED: Value = "\0"


@dataclass(frozen=True)
class _Dead:
    """A key that a version and up does not read."""

    since: str
    live: str = ""
    """The key that is read instead."""
    effective: Value = _NOT_FIXED
    """What holds in truth whatever the key says."""
    only_v1: bool = False
    only_fsdp: bool = False


_DEAD: Mapping[str, _Dead] = {
    f"{_ACTOR}.grad_clip": _Dead("0.8.0", f"{_ACTOR}.optim.clip_grad"),
    "critic.grad_clip": _Dead("0.8.0", "critic.optim.clip_grad"),
    f"{_ACTOR}.use_torch_compile": _Dead("0.8.0", f"{_ACTOR}.fsdp_config.use_torch_compile", only_fsdp=True),
    "actor_rollout_ref.nccl_timeout": _Dead("0.8.0"),
    "actor_rollout_ref.ref.fsdp_config.param_offload": _Dead("0.6.1", effective=True, only_fsdp=True),
    f"{_ROLLOUT}.over_sample_rate": _Dead("0.7.1"),
    f"{_ROLLOUT}.multi_stage_wake_up": _Dead("0.7.1"),
    f"{_ROLLOUT}.agent.custom_async_server": _Dead("0.9.0", only_v1=True),
    f"{_ROLLOUT}.checkpoint_manager_class": _Dead("0.9.0", only_v1=True),
    "trainer.balance_batch": _Dead("0.9.0", effective=True, only_v1=True),
    "trainer.ray_wait_register_center_timeout": _Dead("0.9.0", only_v1=True),
    "trainer.esi_redundant_time": _Dead("0.9.0", only_v1=True),
    "critic.ppo_max_token_len_per_gpu": _Dead(
        "0.9.0", "critic.ppo_infer_max_token_len_per_gpu", only_v1=True
    ),
    "critic.forward_max_token_len_per_gpu": _Dead(
        "0.9.0", "critic.ppo_infer_max_token_len_per_gpu", only_v1=True
    ),
    "critic.forward_micro_batch_size_per_gpu": _Dead("0.9.0", only_v1=True),
}


def _dead(setting: Setting) -> Iterable[Hit]:
    for key, dead in _DEAD.items():
        value = setting.given.get(key)
        if key not in setting.given or not setting.since(dead.since) or not _concerns(setting, key, dead):
            continue
        if value == dead.effective or value == setting.schema.resolved_defaults.get(key):
            continue
        live = setting.flat.get(dead.live) if dead.live else None
        if dead.live and live == value:
            continue
        yield Hit(
            key=key,
            found=shown(value),
            message=_why(key, dead),
            fix=_fix(setting, key, dead),
        )


def _concerns(setting: Setting, key: str, dead: _Dead) -> bool:
    if key.startswith("critic.") and not setting.shape.uses_critic:
        return False
    if dead.only_fsdp and not setting.shape.is_fsdp:
        return False
    return setting.is_v1 or not dead.only_v1


def _why(key: str, dead: _Dead) -> str:
    text = DEAD_KEYS.get(key)
    if text is not None:
        return text
    return f"not read; {dead.live} is" if dead.live else "not read"


def _fix(setting: Setting, key: str, dead: _Dead) -> Fix:
    """The value goes where it is read, unless the user wrote something else there."""
    if dead.live in setting.schema.defaults and dead.live not in setting.given:
        return Fix(set={dead.live: setting.given[key]}, remove=(key,))
    return Fix(remove=(key,))


def _clip_ratio(setting: Setting) -> Iterable[Hit]:
    key, value = f"{_ACTOR}.clip_ratio", setting.given.get(f"{_ACTOR}.clip_ratio")
    bounds = [f"{_ACTOR}.clip_ratio_low", f"{_ACTOR}.clip_ratio_high"]
    if key not in setting.given or value is None:
        return
    if all(setting.gives(bound) for bound in bounds) or all(setting.flat.get(b) == value for b in bounds):
        return
    low, high = (shown(setting.flat.get(bound)) for bound in bounds)
    yield Hit(
        key=key,
        found=shown(value),
        message=f"no effect: clip_ratio_low = {low} and clip_ratio_high = {high} are read",
        fix=Fix(set={bound: value for bound in bounds if not setting.gives(bound)}),
    )


def _moved_reward(setting: Setting) -> Iterable[Hit]:
    """Verl 0.7.1 and 0.8.0 still move the old keys; since 0.9.0 they are ignored."""
    if not setting.since("0.9.0"):
        return
    for key, value in setting.given.items():
        section = key.split(".")[0]
        if section not in ("custom_reward_function", "reward_model") or value is None:
            continue
        if value == setting.schema.resolved_defaults.get(key):
            continue
        right = f"reward.{key}"
        known = right in setting.schema.defaults
        fix = Fix(set={right: value}, remove=(key,)) if known and right not in setting.given else None
        yield Hit(
            key=key,
            found=shown(value),
            message=f"ignored since verl 0.9; the keys under reward.{section} are read",
            fix=fix,
        )


def _shadowed_micro_batch(setting: Setting) -> Iterable[Hit]:
    if not setting.shape.packs_by_tokens:
        return
    for key in (
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{_ACTOR}.ppo_micro_batch_size",
    ):
        if setting.given.get(key) is not None:
            budget = setting.flat.get(f"{_ACTOR}.ppo_max_token_len_per_gpu")
            yield Hit(
                key=key,
                found=shown(setting.given[key]),
                message=f"not used: use_dynamic_bsz packs by tokens, {shown(budget)} a micro batch",
            )


EFFECT_RULES = (
    Rule("dead_key", Severity.WARNING, "Nothing in this verl reads the key", _dead),
    Rule(
        "clip_ratio_shadowed",
        Severity.WARNING,
        "Since 0.5 the bounds of their own win over clip_ratio (trainer/ppo/core_algos.py:1321)",
        _clip_ratio,
    ),
    Rule(
        "reward_keys_moved",
        Severity.ERROR,
        "The run would train on verl's own rewards instead (main_ppo.py no longer migrates old keys)",
        _moved_reward,
    ),
    Rule(
        "micro_batch_shadowed",
        Severity.NOTE,
        "Token packing ignores micro batches (workers/engine/utils.py:108)",
        _shadowed_micro_batch,
    ),
)
