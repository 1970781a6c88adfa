"""Finds out what a first job should say: composes the launch, looks at machine, model and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.errors import InputError, VerlConfigError
from autotune.forecast.hardware import gpu_inventory, host
from autotune.forecast.imported_job import ImportedJob, Surroundings, imported_job
from autotune.forecast.model_facts import model_facts
from autotune.job.input_paths import absolute_if_found, with_outer_variables
from autotune.job.model import VerlSection
from autotune.records import Value
from autotune.verl_config.compose import ResolvedConfig, compose
from autotune.verl_config.config_yaml import read_config_yaml
from autotune.verl_config.entry_point import resolved_config
from autotune.verl_config.launch_script.reading import LaunchScript, Unresolved, read_launch_script
from autotune.verl_config.validation import PromptLengths, VerlValidator

_GPUS = "trainer.n_gpus_per_node"
_DATA = "data.train_files"
_MODEL = "actor_rollout_ref.model.path"


def read_launch(path: Path) -> LaunchScript:
    """The launch of a shell script or a verl YAML, with the primary configuration that its entry composes.

    Raises:
        InputFileError, VerlConfigError: as `read_launch_script` and `read_config_yaml`.
    """
    if path.suffix in (".yaml", ".yml"):
        return read_config_yaml(path)
    launch = read_launch_script(path)
    folder, name = resolved_config(
        launch.entry, launch.config_path, launch.config_name, (Path.cwd(), path.parent)
    )
    unresolved = launch.unresolved
    if name is None:
        why = "its own configuration was not found from here; verl's ppo_trainer stands in"
        unresolved = (*unresolved, Unresolved(launch.line, launch.entry, why))
    return replace(launch, config_path=folder, config_name=name or "ppo_trainer", unresolved=unresolved)


def filled(launch: LaunchScript, given: Mapping[str, Value]) -> LaunchScript:
    """The launch with these values in place of its own; what they answer is no longer unresolved."""
    kept = {key: value for key, value in launch.overrides.items() if key.lstrip("+") not in given}
    unresolved = tuple(one for one in launch.unresolved if one.key.lstrip("+") not in given)
    return replace(launch, overrides={**kept, **given}, unresolved=unresolved)


def import_job(name: str, launch: LaunchScript, source: Path, device: str = "gpu") -> ImportedJob:
    """The job file of a launch, with what this machine, the model and the data tell.

    Where the script does not tell the GPUs of a node, those of this machine are taken.
    """
    gpus = len(gpu_inventory())
    if gpus and device == "gpu" and any(one.key == _GPUS for one in launch.unresolved):
        launch = filled(launch, {_GPUS: gpus})
    config, against = composed(launch, source.parent)
    around = surroundings(config, launch)
    around = replace(around, notes=(*around.notes, *against))
    flat: Mapping[str, Value] = config.flat if config else launch.overrides
    return imported_job(name, launch, flat, source.name, around, device)


def composed(launch: LaunchScript, folder: Path) -> tuple[ResolvedConfig | None, tuple[str, ...]]:
    """The whole configuration, and what verl has against it; None where nothing can be composed.

    Keys that verl refuses are named and left out of the answer, not out of the launch.
    """
    overrides = {key: with_outer_variables(value) for key, value in launch.overrides.items()}
    path = with_outer_variables(launch.config_path)
    config_path = absolute_if_found(path, folder) if isinstance(path, str) else None
    verl = VerlSection(
        entry=launch.entry,
        config_path=config_path,
        config_name=launch.config_name or "ppo_trainer",
        overrides={},
    )
    try:
        return compose(verl, overrides), ()
    except VerlConfigError as error:
        refused = {fault.key for fault in error.faults}
        notes = tuple(
            f"{fault.key or fault.where}: {fault.found}; {fault.next_step}" for fault in error.faults
        )
    rest = {key: value for key, value in overrides.items() if key.lstrip("+") not in refused}
    try:
        return compose(verl, rest), notes
    except VerlConfigError:
        return None, notes


def surroundings(
    config: ResolvedConfig | None, launch: LaunchScript, python: str | None = None
) -> Surroundings:
    """Machine, model and data of a launch; verl's own tokenizer counts the prompts, in another process."""
    notes: list[str] = []
    facts = None
    unresolved = {one.key.lstrip("+"): one.text.partition("=")[2] for one in launch.unresolved if one.key}
    flat: Mapping[str, Value] = config.flat if config else {}
    name = unresolved.get(_MODEL, flat.get(_MODEL))
    if isinstance(name, str):
        facts = model_facts(name) if "$" not in Path(name).name else None
        if facts is None:
            notes.append(f"Model: {name} is neither here nor in the catalogue of well-known names.")
    lengths = None
    if config is not None and not {_MODEL, _DATA}.intersection(unresolved):
        lengths = _lengths(config, python, notes)
    return Surroundings(gpus=gpu_inventory(), host=host(), model=facts, lengths=lengths, notes=tuple(notes))


def _lengths(config: ResolvedConfig, python: str | None, notes: list[str]) -> PromptLengths | None:
    missing = _not_here(config.flat)
    if missing:
        notes.append(f"Prompt lengths were not counted: {', '.join(missing)} not on this machine.")
        return None
    try:
        with VerlValidator(python) as validator:
            return validator.prompt_lengths(config.yaml())
    except InputError as error:
        notes.append(f"Prompt lengths were not counted: {error.faults[0].found}")
        return None


def _not_here(flat: Mapping[str, Value]) -> list[str]:
    files = flat.get(_DATA)
    names = [str(name) for name in (files if isinstance(files, list) else [files])]
    missing = [name for name in names if not Path(name).expanduser().is_file()]
    tokenizer = str(flat.get("actor_rollout_ref.model.tokenizer_path") or flat.get(_MODEL))
    if not Path(tokenizer).expanduser().is_dir():
        missing.append(f"the tokenizer of {tokenizer}")
    return missing
