"""The exported configuration: all of it, only what differs from verl's defaults, or a shell command.

All three compose to the same configuration. Hydra counts a relative `--config-path` from the folder of
verl's entry module, so the command in the header spells out the current one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol

from omegaconf import OmegaConf

from autotune.errors import Fault, VerlConfigError
from autotune.export.header import ExportFacts, header
from autotune.job.model import VerlSection
from autotune.job.secrets import is_secret
from autotune.records import Overrides, Value
from autotune.verl_config.compose import config_folder
from autotune.verl_config.rendering import nested_yaml, shell_overrides

VERL_CONFIGS = "pkg://verl.trainer.config"


class ExportForm(str, Enum):
    """How the configuration is written."""

    FULL = "full"
    """Every key of verl's configuration, resolved; stands alone."""
    MINIMAL = "minimal"
    """verl's defaults by name, and the job's and the winner's values over them."""
    SHELL = "shell"
    """A script that starts verl with overrides."""


class Resolved(Protocol):
    """What `verl_config.compose` returns, as far as it is needed here."""

    def yaml(self) -> str:
        """The whole configuration as YAML text."""
        ...


def render_export(
    form: ExportForm,
    *,
    resolved: Resolved,
    verl: VerlSection,
    overrides: Overrides,
    facts: ExportFacts,
    name: str = "best",
) -> str:
    """Text of the exported file.

    Args:
        form: how it is written.
        resolved: the composed configuration of `verl` with `overrides`.
        verl: the user's own section of the job.
        overrides: the winner's values over it (`StageResult.overrides`).
        facts: what the header tells.
        name: the file's name without suffix, for Hydra's `--config-name`.

    Raises:
        VerlConfigError: `MINIMAL` where the user's own primary configuration sets `hydra.searchpath`,
            which Hydra takes from no other file than the one it is started with.
    """
    command = f'python -m {verl.entry} --config-path "$PWD" --config-name {shlex.quote(name)}'
    in_its_folder = ["cd to this file's folder (Hydra wants an absolute --config-path), then", command]
    if form is ExportForm.FULL:
        return f"{header(facts, in_its_folder)}\n{resolved.yaml()}"
    merged = merged_overrides(verl.overrides, overrides)
    if form is ExportForm.MINIMAL:
        return f"{header(facts, in_its_folder)}\n{_minimal(verl, merged)}"
    return f"#!/usr/bin/env bash\n{header(facts, [f'bash {shlex.quote(name)}.sh'])}\n{_script(verl, merged)}"


def merged_overrides(own: Overrides, winner: Overrides) -> dict[str, Value]:
    """The job's overrides with the winner's over them; a key keeps its `+` if either has one."""
    plus = {key.lstrip("+") for key in (*own, *winner) if key.startswith("+")}
    values = {key.lstrip("+"): value for key, value in (*own.items(), *winner.items())}
    return {f"+{key}" if key in plus else key: value for key, value in values.items()}


def _minimal(verl: VerlSection, merged: Mapping[str, Value]) -> str:
    groups = {key: value for key, value in merged.items() if _selects_group(verl, key, value)}
    values = {key.lstrip("+"): value for key, value in merged.items() if key not in groups}
    selections: list[Value] = [
        {key[1:] if key.startswith("+") else f"override {key}": value} for key, value in groups.items()
    ]
    given = values.pop("hydra.searchpath", None)
    frame: dict[str, Value] = {
        "defaults": [verl.config_name.removesuffix(".yaml"), *selections, "_self_"],
        "hydra.searchpath": [*_own_folder(verl), VERL_CONFIGS, *(given if isinstance(given, list) else [])],
    }
    return nested_yaml({**frame, **values})


def _own_folder(verl: VerlSection) -> list[Value]:
    """The search path of a primary configuration outside verl."""
    if verl.config_path is None:
        return []
    folder = Path(verl.config_path).expanduser().resolve()
    primary = folder / f"{verl.config_name.removesuffix('.yaml')}.yaml"
    if OmegaConf.select(OmegaConf.load(primary), "hydra.searchpath") is not None:
        raise VerlConfigError(
            Fault(
                where=str(primary),
                key="hydra.searchpath",
                found="a search path, which Hydra takes from the primary configuration alone",
                allowed="none, for a minimal export on top of this file",
                next_step="export the full form, or the shell form",
            )
        )
    return [f"file://{folder}"]


def _selects_group(verl: VerlSection, key: str, value: Value) -> bool:
    """True for a choice in Hydra's defaults list (`model_engine=megatron`) instead of a value."""
    if "@" in key or "/" in key:
        return True
    folders = [config_folder(), *([Path(verl.config_path).expanduser()] if verl.config_path else [])]
    is_group = any((folder / key.lstrip("+")).is_dir() for folder in folders)
    return "." not in key and isinstance(value, str) and is_group


def _script(verl: VerlSection, merged: Mapping[str, Value]) -> str:
    words = [f"python -m {shlex.quote(verl.entry)}"]
    if verl.config_path is not None:
        words.append(f"--config-path {shlex.quote(str(Path(verl.config_path).expanduser().resolve()))}")
    words.append(f"--config-name {shlex.quote(verl.config_name.removesuffix('.yaml'))}")
    lines = [_variable(name, value) for name, value in verl.environment.items()]
    lines.append(" \\\n    ".join([*words, *shell_overrides(merged), '"$@"']))
    return "\n".join(lines) + "\n"


def _variable(name: str, value: str) -> str:
    """Sets a variable; of a secret only asks that it is set."""
    return (
        f': "${{{name}:?set it first}}"' if is_secret(name, value) else f"export {name}={shlex.quote(value)}"
    )
