"""What `autotune check` is pointed at: a job file, a YAML of verl, or a launch script."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.errors import Fault, VerlConfigError
from autotune.job.loading import load_job
from autotune.job.yaml_source import KeyPath, YamlSource, read_yaml
from autotune.records import Value
from autotune.verl_config import tree as trees
from autotune.verl_config.compose import compose, verl_version
from autotune.verl_config.launch_script.reading import read_launch_script
from autotune.verl_config.rules.rule import Setting
from autotune.verl_config.schema.released import (
    Schema,
    configurations,
    release_order,
    released_schema,
    released_versions,
)

_ENGINES = {
    "megatron": "ppo_megatron_trainer",
    "veomni": "ppo_veomni_trainer",
    "torchtitan": "ppo_torchtitan_trainer",
}
_SCRIPT_ENDINGS = (".sh", ".bash", ".slurm", ".sbatch")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A configuration to check, as its file gives it."""

    path: Path
    kind: str
    """job, yaml or script."""
    given: Mapping[str, Value]
    """The user's own values by dotted key, without `+`."""
    added: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    """Keys that are given, but whose values the text alone does not tell."""
    config_name: str = "ppo_trainer"
    gpus: int | None = None
    """As the job says; None: nnodes * n_gpus_per_node."""
    environment: Mapping[str, str] = field(default_factory=dict)
    source: YamlSource | None = None
    """For writing fixes; None where the file cannot be edited."""
    prefix: KeyPath = ()
    """Where verl's keys stand in `source`."""


def read_target(path: Path) -> Target:
    """Reads the file, whichever of the three it is.

    Raises:
        JobFileError: A job or YAML file with faults of its own.
        InputFileError: A script that starts no verl training.
    """
    if path.suffix in _SCRIPT_ENDINGS:
        return _script(path)
    source = read_yaml(path, "job file or YAML of verl")
    if isinstance(source.value.get("verl"), dict):
        return _job(path, source)
    return _verl_yaml(path, source)


def setting_of(
    target: Target,
    *,
    version: str | None = None,
    gpus: int | None = None,
    known_model: Callable[[str], Mapping[str, Any] | None] | None = None,
) -> Setting:
    """What the rules look at.

    Args:
        target: What was read.
        version: verl's; None: the installed one.
        gpus: Of the whole run; None: as the target says.
        known_model: What config.json would say of a model whose folder is not here.

    Raises:
        VerlConfigError: No such version or primary configuration is known.
    """
    schema = schema_for(version or version_here(), target)
    given = _own_values(target, schema)
    path = given.get("actor_rollout_ref.model.path")
    model = _model_config(path)
    if model is None and known_model is not None and isinstance(path, str):
        model = known_model(path)
    setting = Setting(
        schema=schema,
        given=given,
        added=target.added,
        unknown=target.unknown,
        gpus=1,
        environment={**_outer_environment(), **target.environment},
        model=model,
        own_folders=target.kind == "job",
    )
    return _with_gpus(setting, gpus or target.gpus)


def version_here() -> str:
    """The installed verl's version; the newest known one where none is installed."""
    try:
        return verl_version()
    except VerlConfigError:
        return released_versions()[-1]


def schema_for(version: str, target: Target) -> Schema:
    """The keys of this version, for the target's primary configuration and engine."""
    name = target.config_name.removesuffix(".yaml")
    engine = target.given.get("model_engine")
    if isinstance(engine, str) and engine in _ENGINES:
        name = _ENGINES[engine]
    known = _known_version(version)
    if known is not None and name in configurations(known):
        return released_schema(known, name)
    return _installed_schema(version, target, name)


def _known_version(version: str) -> str | None:
    """The stored version, or the newest stored one of the same minor release (0.9.2 as 0.9.1)."""
    if version in released_versions():
        return version
    same = [one for one in released_versions() if release_order(one)[:2] == release_order(version)[:2]]
    return same[-1] if same else None


def _installed_schema(version: str, target: Target, name: str) -> Schema:
    """A primary configuration of the user's own, composed by the installed verl."""
    here = version_here()
    if version != here or target.kind != "job":
        known = ", ".join(released_versions())
        raise VerlConfigError(
            Fault(
                where=f"verl {version}",
                key=name,
                found="no known keys of this version and configuration",
                allowed=f"verl {known} with a configuration of its own",
                next_step="name another --verl-version, or install that verl",
            )
        )
    job = load_job(target.path)
    section = job.verl.model_copy(update={"overrides": {}})
    return Schema(here, name, compose(section, {}).default_flat)


def _job(path: Path, source: YamlSource) -> Target:
    job = load_job(path)
    overrides = job.verl.overrides
    given = {key.lstrip("+"): value for key, value in overrides.items()}
    if job.resources.device == "cpu":
        # A trial on CPU is given its ranks as verl's GPUs.
        given.setdefault("trainer.n_gpus_per_node", job.resources.gpus_per_trial)
    return Target(
        path=path,
        kind="job",
        given=given,
        added=frozenset(key.lstrip("+") for key in overrides if key.startswith("+")),
        config_name=job.verl.config_name,
        gpus=job.resources.gpus_per_trial,
        environment=job.verl.environment,
        source=source,
        prefix=("verl", "overrides"),
    )


def _verl_yaml(path: Path, source: YamlSource) -> Target:
    values = {key: value for key, value in source.value.items() if key not in ("defaults", "hydra")}
    name = "ppo_trainer"
    for entry in source.value.get("defaults") or []:
        if isinstance(entry, str) and entry.startswith("ppo_"):
            name = entry.removesuffix(".yaml")
    actor = values.get("actor_rollout_ref")
    strategy = actor.get("actor", {}).get("strategy") if isinstance(actor, dict) else None
    if strategy in _ENGINES:
        name = _ENGINES[strategy]
    flat = trees.flatten(values)
    return Target(path=path, kind="yaml", given=flat, config_name=name, source=source)


def _script(path: Path) -> Target:
    """Nothing of it is executed; what its text does not tell stays unknown."""
    launch = read_launch_script(path)
    unknown = {one.key.lstrip("+") for one in launch.unresolved if one.key}
    given = {key.lstrip("+"): value for key, value in launch.overrides.items()}
    return Target(
        path=path,
        kind="script",
        given={**given, **dict.fromkeys(unknown - given.keys())},
        added=frozenset(key.lstrip("+") for key in launch.overrides if key.startswith("+")),
        unknown=frozenset(unknown),
        config_name=launch.config_name or "ppo_trainer",
        environment=launch.environment,
    )


def _own_values(target: Target, schema: Schema) -> dict[str, Value]:
    """A composed YAML holds every key: the user's own values are those that are not verl's."""
    if target.kind != "yaml":
        return dict(target.given)
    plain = schema.resolved_defaults
    return {
        key: value
        for key, value in target.given.items()
        if key not in plain or (value not in (plain[key], schema.defaults.get(key)) and value != "???")
    }


def _with_gpus(setting: Setting, gpus: int | None) -> Setting:
    if gpus is None:
        a_node, nodes = setting.shape.count("trainer.n_gpus_per_node"), setting.shape.degree("trainer.nnodes")
        gpus = (a_node or 1) * nodes
    return Setting(**{**_fields(setting), "gpus": gpus})


def _fields(setting: Setting) -> dict[str, Any]:
    return {name: getattr(setting, name) for name in Setting.__dataclass_fields__}


def _outer_environment() -> dict[str, str]:
    """What verl's process would inherit, as far as rules ask for it."""
    return {name: value for name, value in os.environ.items() if name.startswith("PYTORCH_")}


def _model_config(path: Value) -> Mapping[str, Any] | None:
    """The model's config.json where its folder is on this machine."""
    if not isinstance(path, str) or "://" in path:
        return None
    file = Path(path).expanduser() / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None
