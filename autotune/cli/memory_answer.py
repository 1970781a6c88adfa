"""The memory forecast as `autotune check` gives it: for a machine that is named, or for this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import Fault, InputError
from autotune.forecast.gpu_spec import parse_gpu_spec
from autotune.forecast.hardware import gpu_inventory
from autotune.forecast.memory import forecast
from autotune.forecast.model_facts import model_facts
from autotune.forecast.solve import Machine, largest_that_fits
from autotune.verl_config.rules.rule import Setting


@dataclass(frozen=True)
class NamedMachine:
    """What `--gpus` says; None where it says nothing."""

    gpus: int | None = None
    gpu_memory_gb: float | None = None


def machine_of(gpus: str | None) -> NamedMachine:
    """Reads `--gpus`: a count, or a name with its count and memory.

    Raises:
        InputError: It is neither.
    """
    if gpus is None:
        here = gpu_inventory()
        return NamedMachine(gpu_memory_gb=min((gpu.total_gb for gpu in here), default=None))
    if gpus.isdigit():
        if int(gpus) < 1:
            raise InputError(Fault(where="--gpus", found=gpus, allowed="at least 1", next_step="8xH100-80GB"))
        return NamedMachine(gpus=int(gpus))
    spec = parse_gpu_spec(gpus)
    return NamedMachine(gpus=spec.count, gpu_memory_gb=spec.memory_gb)


def known_model(name: str) -> Mapping[str, Any] | None:
    """What a well-known model's config.json says, as far as rules ask for it."""
    facts = model_facts(name)
    if facts is None:
        return None
    return {
        "num_attention_heads": facts.heads,
        "num_key_value_heads": facts.kv_heads,
        "vocab_size": facts.vocab,
        "hidden_size": facts.hidden,
    }


def memory_answer(setting: Setting, machine: NamedMachine) -> dict[str, Any] | None:
    """Peak memory by phase, whether it fits, and the largest values that would; None where unknown."""
    path = setting.flat.get("actor_rollout_ref.model.path")
    facts = model_facts(path) if isinstance(path, str) else None
    if facts is None or machine.gpu_memory_gb is None or setting.flat.get("trainer.device") == "cpu":
        return None
    flat = dict(setting.flat)
    found = forecast(flat, facts, machine.gpu_memory_gb, setting.gpus)
    limits = largest_that_fits(flat, facts, Machine(machine.gpu_memory_gb, setting.gpus))
    return {
        "capacity_gb": found.capacity_gb,
        "fits": found.fits,
        "phases": [
            {"phase": phase.phase, "peak_gb": round(phase.peak_gb, 2), "terms": dict(phase.terms)}
            for phase in found.phases
        ],
        "largest": limits,
    }
