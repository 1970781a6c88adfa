"""Checks the files that a configuration names, before a GPU is used: model folders, data, reward code."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from autotune.errors import Fault
from autotune.records import Value
from autotune.verl_config.training_shape import TrainingShape

REWARD_IMPORT_LIMIT_S = 60.0

_REWARD_PATH = "reward.custom_reward_function.path"
_REWARD_NAME = "reward.custom_reward_function.name"
_IMPORT_PROGRAM = """\
import importlib.util, sys
path, name = sys.argv[1:]
spec = importlib.util.spec_from_file_location("custom_module", path)
module = importlib.util.module_from_spec(spec)
sys.modules["custom_module"] = module
spec.loader.exec_module(module)
sys.exit(0 if callable(getattr(module, name, None)) else 3)
"""
_NO_SUCH_FUNCTION = 3


def input_faults(
    flat: Mapping[str, Value],
    where: str,
    *,
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Fault]:
    """What is wrong with the local files that the flat resolved configuration names; empty: nothing.

    Hub names and URLs are passed over. The reward file is imported in a process of its own, by `python`
    (verl's interpreter; default: this one) with `environment` over this process's own.
    """
    return [
        *_model_faults(flat, where),
        *_data_faults(flat, where),
        *_reward_faults(flat, where, python or sys.executable, environment or {}),
    ]


def _model_faults(flat: Mapping[str, Value], where: str) -> Iterable[Fault]:
    keys = ["actor_rollout_ref.model.path"]
    if TrainingShape(flat, 1).uses_critic:
        keys.append("critic.model.path")
    for key in keys:
        name = flat.get(key)
        if not isinstance(name, str) or not _is_local_model(name):
            continue
        folder = Path(name).expanduser()
        if not folder.is_dir():
            allowed = "a folder with config.json, tokenizer and weights, or a name on the hub (owner/name)"
            next_step = "correct the path (relative to the working directory)"
            yield Fault(where=where, key=key, found=f"no folder {name}", allowed=allowed, next_step=next_step)
        elif not (folder / "config.json").is_file():
            next_step = "name the folder that save_pretrained wrote"
            yield Fault(where=where, key=key, found=f"{name} without config.json", next_step=next_step)


def _is_local_model(name: str) -> bool:
    """False for hub names (`Qwen/Qwen2-7B`) and URLs, true for whatever can only be a path."""
    if "://" in name:
        return False
    path = Path(name).expanduser()
    return path.is_absolute() or name.startswith(".") or name.count("/") != 1 or path.exists()


def _data_faults(flat: Mapping[str, Value], where: str) -> Iterable[Fault]:
    for key in ("data.train_files", "data.val_files"):
        given = flat.get(key)
        names = given if isinstance(given, list) else [given]
        if not any(names):
            yield Fault(
                where=where,
                key=key,
                found=repr(given),
                allowed="one parquet file or a list of them",
                next_step="name the data in the job's verl.overrides",
            )
            continue
        rows: list[int | None] = []
        for name in names:
            faults, count = _one_data_file(str(name), key, flat, where)
            yield from faults
            rows.append(count)
        if key == "data.train_files" and None not in rows:
            yield from _too_few_rows(sum(row or 0 for row in rows), flat, where)


def _one_data_file(
    name: str, key: str, flat: Mapping[str, Value], where: str
) -> tuple[list[Fault], int | None]:
    """The file's faults, and its rows; None where they are unknown or the file is at fault."""
    path = Path(name).expanduser()
    if "://" in name:
        return [], None
    if not path.is_file():
        next_step = "write the parquet files first, or correct the path (relative to the working directory)"
        return [Fault(where=where, key=key, found=f"no file {name}", next_step=next_step)], None
    if path.suffix in (".json", ".jsonl"):
        return [], None
    if path.suffix != ".parquet":
        allowed, next_step = "a .parquet, .json or .jsonl file", "convert the data, or correct the name"
        return [Fault(where=where, key=key, found=name, allowed=allowed, next_step=next_step)], None
    try:
        head = pq.read_metadata(path)
        columns = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as error:
        found = f"{name} cannot be read: {' '.join(str(error).split())}"
        return [Fault(where=where, key=key, found=found, next_step="write the file again")], None
    faults = []
    if head.num_rows == 0:
        faults.append(
            Fault(where=where, key=key, found=f"{name} has no rows", next_step="write the file again")
        )
    missing = [column for column in _needed_columns(flat) if column not in columns]
    if missing:
        faults.append(
            Fault(
                where=where,
                key=key,
                found=f"{name} has no column {', '.join(missing)}; it has {', '.join(sorted(columns))}",
                allowed=f"the columns {', '.join(_needed_columns(flat))}",
                next_step="add the column, or name the prompt's one in data.prompt_key",
            )
        )
    return faults, None if faults else int(head.num_rows)


def _needed_columns(flat: Mapping[str, Value]) -> list[str]:
    """Verl's own reward managers read both reward columns whatever function scores the answer."""
    prompt = str(flat.get("data.prompt_key") or "prompt")
    own_manager = flat.get("reward.reward_manager.source") == "importlib"
    if own_manager or flat.get("reward.reward_model.enable"):
        return [prompt]
    return [prompt, "data_source", "reward_model"]


def _too_few_rows(rows: int, flat: Mapping[str, Value], where: str) -> Iterable[Fault]:
    batch = flat.get("data.train_batch_size")
    if isinstance(batch, int) and 0 < rows < batch:
        yield Fault(
            where=where,
            key="data.train_batch_size",
            found=f"{batch} with {rows} rows in data.train_files",
            allowed=f"at most {rows}: verl drops the last incomplete batch and would have none",
            next_step="lower it, or give more rows",
        )


def _reward_faults(
    flat: Mapping[str, Value], where: str, python: str, environment: Mapping[str, str]
) -> Iterable[Fault]:
    name = flat.get(_REWARD_PATH)
    if not isinstance(name, str) or not name or "://" in name:
        return
    path = Path(name).expanduser()
    if not path.is_file():
        yield Fault(where=where, key=_REWARD_PATH, found=f"no file {name}", next_step="correct the path")
        return
    try:
        ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{name} line {line}" if line else name
        found = f"{place}: {getattr(error, 'msg', error)}"
        yield Fault(where=where, key=_REWARD_PATH, found=found, next_step="mend the file")
        return
    yield from _reward_import_faults(
        path, str(flat.get(_REWARD_NAME) or "compute_score"), where, python, environment
    )


def _reward_import_faults(
    path: Path, function: str, where: str, python: str, environment: Mapping[str, str]
) -> Iterable[Fault]:
    next_step = f"try `{python} {path}`"
    try:
        done = subprocess.run(
            [python, "-c", _IMPORT_PROGRAM, str(path), function],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=REWARD_IMPORT_LIMIT_S,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        found = f"importing {path} took more than {REWARD_IMPORT_LIMIT_S:.0f} s"
        yield Fault(where=where, key=_REWARD_PATH, found=found, next_step=next_step)
        return
    except OSError as error:
        found = f"{python}: {error.strerror}"
        next_step = "name the interpreter of the environment that runs verl"
        yield Fault(where=where, key="resources.python", found=found, next_step=next_step)
        return
    if done.returncode == _NO_SUCH_FUNCTION:
        allowed = "a function at the top level of the file"
        yield Fault(
            where=where,
            key=_REWARD_NAME,
            found=f"no function {function} in {path}",
            allowed=allowed,
            next_step=f"correct the name, or define {function} there",
        )
    elif done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        found = f"{path} does not import: {last}"
        yield Fault(where=where, key=_REWARD_PATH, found=found, next_step=next_step)
