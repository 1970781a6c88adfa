"""Reads job and search-space files. Everything wrong with a file is told at once, by place and key."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autotune.errors import Fault, JobFileError
from autotune.job.input_paths import absolute_if_found, with_absolute_inputs, with_outer_variables
from autotune.job.model import Job, StageSections
from autotune.job.model_faults import listed, model_faults, nearest, shown
from autotune.job.shipped import shipped, shipped_names
from autotune.job.space import SearchSpace
from autotune.job.space_faults import checked_space, key_fault
from autotune.job.yaml_source import KeyPath, YamlSource, dotted, read_yaml

_STAND_IN = {"name": "stand-in", "parameters": {"x.y": {"kind": "categorical", "choices": [0]}}}
"""Takes a faulty space's place, so that the rest of the job is still checked."""


def load_job(path: Path) -> Job:
    """The job of a file, with its search spaces read and its local inputs made absolute where they exist.

    A stage's `search_space` is a mapping, the name of a shipped space (`survive_fsdp`), or a path
    relative to the job file.

    Raises:
        JobFileError: every fault of the file and of the search spaces it names.
    """
    source = read_yaml(path, "job file")
    faults = list(source.faults)
    raw = copy.deepcopy(source.value)
    _replace_outer_variables(raw)
    for stage, section in _stage_sections(raw):
        at: KeyPath = ("stages", stage, "search_space")
        try:
            section["search_space"] = _stage_space(source, at, section["search_space"], path.parent)
        except JobFileError as error:
            faults += error.faults
            section["search_space"] = _STAND_IN
    try:
        job = Job.model_validate(raw)
    except ValidationError as error:
        faults += model_faults(error, Job, replace(source, value=raw))
        job = None
    faults += _override_faults(source)
    if faults or job is None:
        raise JobFileError(_in_file_order(faults))
    return _with_absolute_inputs(job, path.parent)


def load_space(path: Path) -> SearchSpace:
    """The search space of a file.

    Raises:
        JobFileError: every fault of the file.
    """
    source = read_yaml(path, "search space")
    faults = list(source.faults)
    try:
        space = checked_space(source, ())
    except JobFileError as error:
        raise JobFileError(_in_file_order([*faults, *error.faults])) from None
    if faults:
        raise JobFileError(_in_file_order(faults))
    return space


def job_hash(job: Job) -> str:
    """16 hex digits that change when earlier trials no longer answer the same question.

    What a user may change between two starts of one job is left out: budget, guards, storage, where
    it runs, how many trials, what is accepted, and the texts for people.
    """
    content = {
        "name": job.name,
        "verl": job.verl.model_dump(mode="json"),
        "resources": job.resources.model_dump(
            mode="json", exclude={"trials_at_once", "batch", "ray_address", "python"}
        ),
        "stages": {name.value: _stage_identity(job, name) for name in job.stage_names()},
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _replace_outer_variables(raw: dict[str, Any]) -> None:
    """In what goes to verl; expressions and texts of the rest are left alone."""
    stages = raw.get("stages")
    sections = [raw.get("verl"), *(stages.values() if isinstance(stages, dict) else ())]
    for section in sections:
        for name in ("overrides", "environment", "config_path"):
            if isinstance(section, dict) and name in section:
                section[name] = with_outer_variables(section[name])


def _stage_identity(job: Job, name: Any) -> dict[str, Any]:
    section = job.stage(name)
    assert section is not None
    space = section.search_space.model_dump(mode="json")
    parameters = {
        key: {field: value for field, value in parameter.items() if field != "why"}
        for key, parameter in space["parameters"].items()
    }
    stage = section.model_dump(mode="json", include={"steps", "warmup_steps", "seed", "overrides"})
    return {**stage, "search_space": parameters, "order": list(parameters)}


def _stage_sections(raw: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The known stages that name a search space at all; the rest is the model's to refuse."""
    stages = raw.get("stages")
    if not isinstance(stages, dict):
        return []
    return [
        (name, section)
        for name, section in stages.items()
        if name in StageSections.model_fields and isinstance(section, dict) and "search_space" in section
    ]


def _stage_space(source: YamlSource, at: KeyPath, raw: Any, folder: Path) -> dict[str, Any]:
    """The stage's space as plain values, already checked."""
    if isinstance(raw, dict):
        named = replace(source, value=copy.deepcopy(source.value))
        named.value["stages"][at[1]][at[2]].setdefault("name", str(at[1]))
        return checked_space(named, at).model_dump()
    if isinstance(raw, str) and raw:
        return load_space(_space_file(source, at, raw, folder)).model_dump()
    fault = Fault(
        where=source.place(at),
        key=dotted(at),
        found=shown(raw),
        allowed="the name of a shipped search space, a path to one, or a mapping",
        next_step=f"shipped are: {listed(shipped_names('search_spaces'))}",
    )
    raise JobFileError(fault)


def _space_file(source: YamlSource, at: KeyPath, name: str, folder: Path) -> Path:
    beside = folder / Path(name).expanduser()
    if beside.is_file():
        return beside
    known = shipped("search_spaces", name)
    if known is not None:
        return known
    names = shipped_names("search_spaces")
    meant = nearest(Path(name).name.removesuffix(".yaml"), names)
    fault = Fault(
        where=source.place(at),
        key=dotted(at),
        found=f"`{name}`, which is neither a shipped search space nor a file in {folder}",
        allowed=f"{listed(names)}, a path relative to the job file, or a mapping",
        next_step=f"did you mean `{meant}`?" if meant else "name one of these, or write the parameters here",
    )
    raise JobFileError(fault)


def _override_faults(source: YamlSource) -> list[Fault]:
    """Keys in `overrides` that cannot be verl's, whichever verl it is."""
    verl, stages = source.value.get("verl"), source.value.get("stages")
    places: list[tuple[KeyPath, Any]] = [(("verl", "overrides"), verl)]
    if isinstance(stages, dict):
        places += [(("stages", name, "overrides"), section) for name, section in stages.items()]
    faults = []
    for at, section in places:
        overrides = section.get("overrides") if isinstance(section, dict) else None
        seen: dict[str, str] = {}
        for key in overrides if isinstance(overrides, dict) else ():
            if not isinstance(key, str):
                continue
            fault = key_fault(source, (*at, key), key)
            bare = key.lstrip("+")
            if fault is None and bare in seen:
                fault = Fault(
                    where=source.place((*at, key)),
                    key=dotted((*at, key)),
                    found=f"the key a second time (also as `{seen[bare]}`)",
                    allowed="each verl key once",
                    next_step="remove one of the two",
                )
            seen.setdefault(bare, key)
            if fault is not None:
                faults.append(fault)
    return faults


def _with_absolute_inputs(job: Job, folder: Path) -> Job:
    config_path = job.verl.config_path
    verl = job.verl.model_copy(
        update={
            "overrides": with_absolute_inputs(job.verl.overrides, folder),
            "config_path": None if config_path is None else absolute_if_found(config_path, folder),
        }
    )
    stages = {}
    for name in job.stage_names():
        section = job.stage(name)
        assert section is not None
        overrides = with_absolute_inputs(section.overrides, folder)
        stages[name.value] = section.model_copy(update={"overrides": overrides})
    return job.model_copy(update={"verl": verl, "stages": job.stages.model_copy(update=stages)})


def _in_file_order(faults: list[Fault]) -> list[Fault]:
    """Faults by file and line, so that a user mends them from top to bottom."""

    def place(fault: Fault) -> tuple[str, int]:
        file, _, line = fault.where.partition(".yaml:")
        return file, int(line.split(":")[0]) if line.split(":")[0].isdigit() else 0

    return sorted(faults, key=place)
