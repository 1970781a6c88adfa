"""Defaults that changed between versions and matter for speed, memory or learning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.records import Value
from autotune.verl_config.rules.rule import Hit, Rule, Setting, Severity, shown
from autotune.verl_config.schema.released import (
    configurations,
    release_order,
    released_schema,
    released_versions,
)
from autotune.verl_config.training_shape import ACTOR, MODEL, ROLLOUT

_MATTER: Mapping[str, str] = {
    f"{ROLLOUT}.max_num_seqs": "sequences decoded at once: throughput and memory of the engine",
    f"{ROLLOUT}.calculate_log_probs": "the engine's own probabilities are computed",
    f"{MODEL}.use_remove_padding": "packed sequences: memory and speed of the trainer",
    f"{ROLLOUT}.enforce_eager": "captured graphs: speed, memory and start-up time of the engine",
    f"{ROLLOUT}.mode": "engine as a server",
    f"{ROLLOUT}.load_format": "how the engine gets its first weights",
    f"{ACTOR}.entropy_coeff": "bonus for randomness",
    "trainer.use_v1": "the trainer itself: its step, timers and metrics",
    f"{ROLLOUT}.gpu_memory_utilization": "the engine's share of the device",
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": "buffer on every device at weight sync",
}


def changed_defaults(setting: Setting) -> Iterable[Hit]:
    """Keys left at their default whose default was another one in an older version."""
    for key, matter in _MATTER.items():
        if setting.gives(key) or key not in setting.schema.defaults:
            continue
        now = setting.schema.defaults[key]
        older = _last_other(setting, key, now)
        if older is not None:
            version, value = older
            message = f"left at its default, which was {shown(value)} up to verl {version}: {matter}"
            yield Hit(key=key, found=shown(now), message=message)


def _last_other(setting: Setting, key: str, now: Value) -> tuple[str, Value] | None:
    for version in reversed(released_versions()):
        if setting.version <= release_order(version):
            continue
        if setting.schema.config_name not in configurations(version):
            continue
        defaults = released_schema(version, setting.schema.config_name).defaults
        if key in defaults and defaults[key] != now:
            return version, defaults[key]
    return None


DEFAULT_RULES = (
    Rule(
        "changed_default",
        Severity.NOTE,
        "A script from an older verl runs otherwise than it did",
        changed_defaults,
    ),
)
