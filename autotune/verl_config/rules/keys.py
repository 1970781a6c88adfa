"""Keys that this verl does not have: misspelt, in the wrong place, of another version, or invented."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from autotune.verl_config import tree as trees
from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity, shown
from autotune.verl_config.schema.released import (
    Schema,
    configurations,
    released_schema,
    released_versions,
)

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"

_INVENTED: Mapping[str, tuple[str, str]] = {
    "dynamic_bsz_bucketing": ("", "no verl has length buckets; its micro batches are balanced anyway"),
    "bucket_boundaries": ("", "no verl has length buckets; its micro batches are balanced anyway"),
    "grad_clip_adaptive": ("", "no verl has it: token packing leaves the samples of an update unchanged"),
    "grad_clip_min_batch_size": (
        "",
        "no verl has it: token packing leaves the samples of an update unchanged",
    ),
    "enable_monitor": ("", "no verl has it; the metrics global_seqlen/* show the balance"),
    "plot_interval": ("", "no verl has it"),
    "prefetch_factor": ("", "no verl reads it; data.dataloader_num_workers is all there is"),
    "persistent_workers": ("", "no verl reads it; data.dataloader_num_workers is all there is"),
    "use_fast_tokenizer": ("", "no verl reads it"),
    "master_port": ("", "verl picks free ports by itself"),
    "sharding_strategy": ("", "verl has fsdp_config.fsdp_size (-1: full) and reshard_after_forward instead"),
    "cpu_offload": ("", "verl has fsdp_config.param_offload and optimizer_offload instead"),
    "num_epochs": ("trainer.total_epochs", "verl calls it total_epochs"),
    "checkpoint_dir": ("trainer.default_local_dir", "verl calls it default_local_dir"),
    "num_workers": ("data.dataloader_num_workers", "verl calls it dataloader_num_workers"),
    "kl_coef": ("algorithm.kl_ctrl.kl_coef", "it stands under algorithm.kl_ctrl"),
}
"""Names of articles and of other trainers: verl's key where there is one, and what to know."""

_INVENTED_PLACES: Mapping[str, str] = {
    f"{_ROLLOUT}.device": "verl has no such key: the engine takes the devices of its workers",
    "debug": "verl has no such key: set VERL_LOGGING_LEVEL=DEBUG and HYDRA_FULL_ERROR=1 instead",
}

_EVERYWHERE = frozenset(
    {
        *("enable", "enabled", "name", "path", "type", "tool", "ranks", "all_ranks", "strategy", "seed"),
        *("dtype", "n", "mode", "device", "backend", "kwargs", "config_path", "num_workers", "steps"),
    }
)
"""Last names that say nothing of where a key belongs."""

_USUAL = (
    _ACTOR,
    _ROLLOUT,
    "actor_rollout_ref.model",
    "actor_rollout_ref.ref",
    "algorithm",
    "data",
    "trainer",
)


def _unaccepted(setting: Setting) -> list[str]:
    return [
        key
        for given, value in setting.given.items()
        for key, _ in trees.spread(given, value, setting.schema.sections)
        if not setting.schema.accepts(key) and given not in setting.added and not _is_hydras(key)
    ]


def _is_hydras(key: str) -> bool:
    return key.startswith("hydra.") or "@" in key or "/" in key or key in ("defaults", "model_engine")


def _unknown(setting: Setting) -> Iterable[Hit]:
    for key in _unaccepted(setting):
        if _invented(key) is None and _elsewhere(setting.schema, key) is None:
            near = _nearest(setting.schema, key)
            verl = f"verl {setting.schema.version} does not have this key"
            other = _other_version(setting.schema, key)
            message = f"{verl}; {other}" if other else verl
            if near:
                message += f"; nearest: {', '.join(near)}"
            yield Hit(key=key, found=_found(setting, key), message=message, fix=_rename(setting, key, near))


def _misplaced(setting: Setting) -> Iterable[Hit]:
    for key in _unaccepted(setting):
        right = _elsewhere(setting.schema, key)
        if _invented(key) is None and right is not None:
            message = f"verl {setting.schema.version} has this key at {right}"
            yield Hit(key=key, found=_found(setting, key), message=message, fix=_moved(setting, key, right))


def _from_elsewhere(setting: Setting) -> Iterable[Hit]:
    """Also keys written with `+`: under `data` and `trainer` verl ignores them in silence."""
    added = [key for key in setting.given if key in setting.added and not setting.schema.accepts(key)]
    for key in dict.fromkeys([*_unaccepted(setting), *added]):
        found = _invented(key)
        if found is None:
            continue
        right, message = found
        fix = _moved(setting, key, right) if right in setting.schema.defaults else Fix(remove=(key,))
        yield Hit(key=key, found=_found(setting, key), message=message, fix=fix)


def _invented(key: str) -> tuple[str, str] | None:
    if key in _INVENTED_PLACES:
        return "", _INVENTED_PLACES[key]
    return _INVENTED.get(key.rsplit(".", 1)[-1])


def _found(setting: Setting, key: str) -> str:
    return shown(setting.flat.get(key, setting.given.get(key)))


def _elsewhere(schema: Schema, key: str) -> str | None:
    """Where verl has a key of this last name, in the section that people mean; None where nowhere."""
    section, _, name = key.rpartition(".")
    same = schema.by_last_name.get(name, ())
    if not same or name in _EVERYWHERE:
        return None
    if _other_version(schema, key):
        # It was right once: only where it went to is its place, not where another of its name stands.
        near = [other for other in same if other.split(".")[:2] == key.split(".")[:2]]
        near = near or [other for other in same if other.split(".")[0] == key.split(".")[0]] or list(same)
        return near[0] if len(near) == 1 else None
    inner = section.rsplit(".", 1)[-1]
    alike = tuple(other for other in same if other.split(".")[-2:-1] == [inner])
    return min(alike or same, key=_usual_order)


def _usual_order(key: str) -> int:
    return next((rank for rank, section in enumerate(_USUAL) if key.startswith(section)), len(_USUAL))


def _nearest(schema: Schema, key: str) -> list[str]:
    return difflib.get_close_matches(key, [*schema.defaults, *schema.sections], n=3, cutoff=0.75)


def _other_version(schema: Schema, key: str) -> str:
    """Which versions have the key."""
    having = [
        version
        for version in released_versions()
        if version != schema.version and _has(version, schema.config_name, key)
    ]
    return f"verl {', '.join(having)} has it" if having else ""


def _has(version: str, config_name: str, key: str) -> bool:
    return config_name in configurations(version) and key in released_schema(version, config_name).defaults


def _rename(setting: Setting, key: str, near: list[str]) -> Fix | None:
    """Only a slip of the pen is mended: the same section, almost the same name."""
    if not near or key not in setting.given:
        return None
    same_section = near[0].rpartition(".")[0] == key.rpartition(".")[0]
    alike = difflib.SequenceMatcher(None, near[0].rsplit(".", 1)[-1], key.rsplit(".", 1)[-1]).ratio()
    return _moved(setting, key, near[0]) if same_section and alike >= 0.85 else None


def _moved(setting: Setting, key: str, right: str) -> Fix | None:
    if key not in setting.given:
        return None
    if right in setting.given:
        return Fix(remove=(key,))
    return Fix(set={right: setting.given[key]}, remove=(key,))


KEY_RULES = (
    Rule(
        "unknown_key",
        Severity.ERROR,
        "Hydra refuses a key that the configuration lacks: Could not override, exit 1",
        _unknown,
    ),
    Rule(
        "misplaced_key",
        Severity.ERROR,
        "The key exists in another section; Hydra refuses it here",
        _misplaced,
    ),
    Rule(
        "invented_key",
        Severity.ERROR,
        "No verl reads this name: Hydra refuses it, or ignores it where a + forces it in",
        _from_elsewhere,
    ),
)
