"""Reading the benchmark's rows: known configurations and recorded boundaries, as resolved configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autotune.errors import VerlConfigError
from autotune.forecast.gpu_spec import parse_gpu_spec
from autotune.forecast.keys import Flat
from autotune.forecast.model_facts import ModelFacts, model_facts
from autotune.job.expressions import ExpressionError, evaluate
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose

BATCH_KEYS = (
    "data.train_batch_size",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_micro_batch_size",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size",
    "actor_rollout_ref.ref.log_prob_micro_batch_size",
)
"""What the boundary searches changed together."""
UNSTATED_GPU = "H20-96GB"
"""Where a script does not name its card: the largest that verl's scripts name. That a row ran on an unnamed
card says only that some card sufficed; `--unstated-gpu H100-80GB` takes the commonest."""
_NPU = "ASCEND-64GB"
_THEN = {"actor_rollout_ref.rollout.mode": "sync"}
"""verl's defaults of the time when the scripts were tried, where they decide memory and have changed since."""
_THEN_MEGATRON = {"actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 4}
"""The same under Megatron. verl's default was 4 until verl#1047 (eda9f0e9, April 2025), and all scripts that
leave the key out are older."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One configuration with what became of it."""

    name: str
    flat: Flat
    model: ModelFacts
    gpus: int
    gpu_memory_gb: float
    ran: bool
    card_is_named: bool = True
    samples_per_gpu: int | None = None


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A row that cannot be judged, with the reason."""

    name: str
    why: str


def known_rows(path: Path, unstated_gpu: str = UNSTATED_GPU) -> Iterator[Row | Skipped]:
    """The configurations of verl's examples; all of them ran."""
    for row in _lines(path):
        yield _known(row, unstated_gpu)


def boundary_rows(configs: Path, boundaries: Path) -> Iterator[list[Row]]:
    """For each recorded search, its sizes in ascending order."""
    scripts = {row["source"]: row for row in _lines(configs)}
    for search in yaml.safe_load(boundaries.read_text(encoding="utf-8"))["boundaries"]:
        script = scripts[search["script"]]
        gpu = parse_gpu_spec(search["gpus"])
        model = model_facts(str(script["overrides"]["actor_rollout_ref.model.path"]))
        assert model is not None
        sizes = sorted([(n, True) for n in search["ran"]] + [(n, False) for n in search["oom"]])
        yield [
            Row(
                name=f"{Path(search['script']).stem} {samples}/GPU",
                flat=_resolved(
                    {**script["overrides"], **dict.fromkeys(BATCH_KEYS, samples * gpu.count)}, None
                ),
                model=model,
                gpus=gpu.count,
                gpu_memory_gb=gpu.memory_gb,
                ran=ran,
                samples_per_gpu=samples,
            )
            for samples, ran in sizes
        ]


def _known(row: Mapping[str, Any], unstated_gpu: str) -> Row | Skipped:
    name = row["source"].removeprefix("examples/")
    overrides = {key.lstrip("+"): _value(value, row["vars"]) for key, value in row["overrides"].items()}
    path = overrides.get("actor_rollout_ref.model.path")
    if path is None:
        return Skipped(name=name, why="the row names no model")
    model = model_facts(str(path).rstrip("}"))
    if model is None:
        return Skipped(name=name, why=f"unknown architecture {path}")
    per_node, nodes = overrides.get("trainer.n_gpus_per_node", 8), overrides.get("trainer.nnodes", 1)
    if not isinstance(per_node, int):
        return Skipped(name=name, why=f"GPUs not stated: {per_node}")
    gpus = per_node * (nodes if isinstance(nodes, int) else 1)
    stated = (
        f"{row['gpu_type']}-{int(row['gpu_mem_gb'])}GB" if row["gpu_mem_gb"] and row["gpu_type"] else None
    )
    if stated is None and row["gpu_mem_gb"]:
        stated = f"H20-{int(row['gpu_mem_gb'])}GB"
    named = stated or (_NPU if row["gpu_type"] == "Ascend NPU" else None)
    if "megatron" in str(row["config_name"]):
        overrides = {**_THEN_MEGATRON, **overrides}
    try:
        flat = _resolved(overrides, row["config_name"])
    except VerlConfigError as error:
        return Skipped(name=name, why=str(error).splitlines()[0][:90])
    return Row(
        name=name,
        flat=flat,
        model=model,
        gpus=gpus,
        gpu_memory_gb=parse_gpu_spec(named or unstated_gpu).memory_gb,
        ran=True,
        card_is_named=named is not None,
    )


def _resolved(overrides: Mapping[str, Any], config_name: str | None) -> Flat:
    """The row's values over verl's defaults; keys that this verl no longer has are kept as they are."""
    then = {**_THEN, **overrides}
    section = VerlSection(
        config_name=(config_name or "ppo_trainer").removesuffix(".yaml"),
        overrides={f"+{key.lstrip('+')}": value for key, value in then.items() if value != ""},
    )
    return compose(section, {}).flat


def _value(value: Any, variables: Mapping[str, str]) -> Any:
    """The value with shell variables and arithmetic put in where they are plain."""
    if not isinstance(value, str) or "$" not in value:
        return value
    default = re.fullmatch(r"\$\{\w+:-(.+)\}", value)
    text = default[1] if default else value.replace("$((", "").replace("))", "")
    for _ in range(3):
        text = re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], found[0]), text)
        text = re.sub(r"\b[a-z_]\w*\b", lambda found: variables.get(found[0], found[0]), text)
    try:
        return evaluate(text.strip("() ") if text.count("(") != text.count(")") else text, {})
    except (ExpressionError, ValueError):
        return {"True": True, "False": False}.get(text, text.replace("$", ""))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
