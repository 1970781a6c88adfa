"""Reads a verl YAML that a person has: one with `defaults:`, or a whole configuration as Hydra wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from autotune.errors import Fault, InputFileError
from autotune.job.model import VerlSection
from autotune.records import Value
from autotune.verl_config import tree as trees
from autotune.verl_config.compose import compose, default_texts, verl_version
from autotune.verl_config.free_form import is_free_form
from autotune.verl_config.launch_script.reading import LaunchScript, Unresolved

_ENTRY = "verl.trainer.main_ppo"
_OWN_SECTIONS = ("actor_rollout_ref", "algorithm", "data", "trainer")
_LEFT_OUT = ("hydra", "defaults")


def read_config_yaml(path: Path) -> LaunchScript:
    """What a verl YAML would be launched with.

    One with `defaults:` stays what it is: its folder and name become config_path and config_name. A whole
    configuration becomes overrides: what differs from the installed verl's defaults.

    Raises:
        InputFileError: no such file, no YAML, or no verl configuration.
        VerlConfigError: no installed verl.
    """
    source = _loaded(path)
    if "defaults" in source:
        return LaunchScript(1, _ENTRY, str(path.parent.absolute()), path.stem, {}, {})
    if not any(section in source for section in _OWN_SECTIONS):
        raise InputFileError(_no_verl(path, source))
    name = "ppo_megatron_trainer" if _is_megatron(source) else "ppo_trainer"
    overrides, unresolved = _differences(source, name)
    return LaunchScript(1, _ENTRY, None, name, overrides, {}, tuple(unresolved))


def _loaded(path: Path) -> DictConfig:
    try:
        source = OmegaConf.load(path)
    except OSError as error:
        fault = Fault(where=str(path), found=error.strerror or "unreadable", next_step="correct the path")
        raise InputFileError(fault) from None
    except (YAMLError, OmegaConfBaseException, ValueError) as error:
        found = f"no YAML: {' '.join(str(error).split())}"
        raise InputFileError(Fault(where=str(path), found=found, next_step="correct the file")) from None
    if not isinstance(source, DictConfig):
        raise InputFileError(Fault(where=str(path), found="a list", allowed="a verl configuration"))
    return source


def _is_megatron(source: DictConfig) -> bool:
    strategy: Any = OmegaConf.select(source, "actor_rollout_ref.actor.strategy", throw_on_missing=False)
    return bool(strategy == "megatron")


def _differences(source: DictConfig, name: str) -> tuple[dict[str, Value], list[Unresolved]]:
    written = dict(trees.interpolated(source))
    flat = trees.flatten(trees.resolve(source)[0])
    verl = VerlSection(config_name=name, overrides={})
    base = compose(verl, {})
    derived = default_texts(name)
    overrides: dict[str, Value] = {}
    unresolved: list[Unresolved] = []
    later: dict[str, Value] = {}
    for key, value in flat.items():
        if key.split(".")[0] in _LEFT_OUT or value == "???" or written.get(key) == derived.get(key, ""):
            continue
        if key not in base.flat and not is_free_form(key, base.default_flat) and value is not None:
            why = f"verl {verl_version()} has no such key"
            unresolved.append(Unresolved(1, f"{key}: {value!r}", why, key))
        elif key in derived:
            later[key] = value
        elif key not in base.flat or value != base.flat[key]:
            overrides[_with_plus(key, base.flat)] = value
    # A default that follows another key is written out only where it does not follow from the rest.
    following = compose(verl, overrides).flat if later else {}
    overrides |= {key: value for key, value in later.items() if following.get(key) != value}
    return overrides, unresolved


def _with_plus(key: str, flat: dict[str, Value]) -> str:
    return key if key in flat else f"+{key}"


def _no_verl(path: Path, source: DictConfig) -> Fault:
    is_job = "verl" in source and "stages" in source
    return Fault(
        where=str(path),
        found="a job file" if is_job else f"the sections {', '.join(map(str, source)) or '(none)'}",
        allowed=f"a verl configuration with {', '.join(_OWN_SECTIONS)}, or one with `defaults:`",
        next_step=f"run it: autotune run {path}" if is_job else "name the YAML that verl is launched with",
    )
