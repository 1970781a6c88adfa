"""The job's opt-in extensions as verl's own keys: environment variables of Ray's runtime environment.

verl hands `ray_kwargs.ray_init.runtime_env.env_vars` to each of its processes (verl 0.9.1
trainer/main_ppo.py:57-74), where autotune's plugin reads them. So a trial, a search space and an exported
configuration all switch an extension on in the same way, and none does so unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.job.model import ExtensionSection, SpeedStage, StageSection
from autotune.job.space import CategoricalParameter, SearchSpace
from autotune.records import Value

_VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars"
LENGTH_BUCKETS = f"+{_VARIABLES}.AUTOTUNE_LENGTH_BUCKETS"
ADAPTIVE_CLIPPING = f"+{_VARIABLES}.AUTOTUNE_ADAPTIVE_CLIPPING"
TOKEN_CHECK = f"+{_VARIABLES}.AUTOTUNE_TOKEN_CHECK"
WORKERS = "data.dataloader_num_workers"

SORTED, AS_THEY_COME = "sorted", "as_they_come"
FIRST_STEP = "first_step"


def extension_overrides(extensions: ExtensionSection) -> dict[str, Value]:
    """The overrides for what the job switches on; empty for a job without extensions."""
    overrides: dict[str, Value] = {}
    if extensions.length_bucketing is True:
        overrides[LENGTH_BUCKETS] = SORTED
    if extensions.adaptive_clipping is not None:
        overrides[ADAPTIVE_CLIPPING] = f"{extensions.adaptive_clipping:g}"
    if extensions.token_check:
        overrides[TOKEN_CHECK] = FIRST_STEP
    return overrides


def with_extensions(section: StageSection, extensions: ExtensionSection) -> SearchSpace:
    """Stage speed's space with the extensions that the job wants searched; any other stage's as it is.

    Only what changes nothing but the speed can be searched there.
    """
    space = section.search_space
    if not isinstance(section, SpeedStage):
        return space
    added: dict[str, Any] = {}
    if extensions.length_bucketing == "search":
        added[LENGTH_BUCKETS] = CategoricalParameter(
            kind="categorical",
            choices=[AS_THEY_COME, SORTED],
            default=AS_THEY_COME,
            when="not use_dynamic_bsz",
            why="Micro batches of similar length are padded less; dynamic ones are packed by length anyway.",
        )
    if extensions.input_pipeline == "search" and WORKERS not in space.parameters:
        added[WORKERS] = CategoricalParameter(
            kind="categorical",
            choices=[0, 2, 4, 8, 16],
            why="Loader processes prepare the next prompts while the devices work.",
        )
    return space.model_copy(update={"parameters": {**space.parameters, **added}}) if added else space


def extensions_in(flat: Mapping[str, Value]) -> tuple[str, ...]:
    """The extensions that a flat, resolved configuration switches on, for people."""
    found = {
        "length bucketing": _value(flat, LENGTH_BUCKETS) == SORTED,
        f"adaptive gradient clipping {_value(flat, ADAPTIVE_CLIPPING)}": _value(flat, ADAPTIVE_CLIPPING),
        "token check": _value(flat, TOKEN_CHECK),
    }
    return tuple(name for name, is_on in found.items() if is_on)


def _value(flat: Mapping[str, Value], key: str) -> Value:
    return flat.get(key.lstrip("+"))
