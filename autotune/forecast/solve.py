"""The largest micro batch, token budget or utilisation that fits, found by bisection of the forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.forecast.engine_shape import actor_shape
from autotune.forecast.keys import ACTOR, REFERENCE, ROLLOUT, Flat, switch, uses_reference
from autotune.forecast.lengths import Lengths, limits
from autotune.forecast.memory import USABLE_FRAC, MemoryForecast, forecast
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.workload import share_samples

_LARGEST_BUDGET_TOKENS = 2**20
_UTILISATION_STEPS = 100


@dataclass(frozen=True)
class Machine:
    """What a configuration must fit into."""

    gpu_memory_gb: float
    gpus: int
    host_memory_gb: float | None = None
    limit_frac: float = 1.0
    """Of the device, that a peak may take."""


def largest_that_fits(
    flat: Flat, model: ModelFacts, machine: Machine, lengths: Lengths | None = None
) -> dict[str, float]:
    """For each size of the configuration: the largest value, all others as they are, whose own phase fits.

    A key is left out where no value fits. Micro batches and budgets are whole numbers; verl wants micro
    batches to divide the rank's share besides, which is not looked at here.
    """
    found: dict[str, float] = {}
    for key, phase, top in _sizes(flat, machine.gpus):
        low = int(sum(limits(flat))) if key.endswith("_token_len_per_gpu") else 1

        def fits(value: int, key: str = key, phase: str = phase) -> bool:
            return _phase_fits(_with(flat, key, value), model, machine, lengths, phase)

        value = _largest(fits, low, top)
        if value is not None:
            found[key] = value
    utilisation = _largest_utilisation(flat, model, machine)
    if utilisation is not None:
        found[f"{ROLLOUT}.gpu_memory_utilization"] = utilisation
    return found


def _sizes(flat: Flat, gpus: int) -> list[tuple[str, str, int]]:
    """(key, phase it decides, largest value tried) of the sizes that the configuration uses."""
    roles = [(f"{ACTOR}.ppo_", ACTOR, "use_dynamic_bsz", "update_actor")]
    roles.append((f"{ROLLOUT}.log_prob_", ROLLOUT, "log_prob_use_dynamic_bsz", "old_log_prob"))
    if uses_reference(flat):
        roles.append((f"{REFERENCE}.log_prob_", REFERENCE, "log_prob_use_dynamic_bsz", "ref_log_prob"))
    found = []
    dynamic_actor = switch(flat, f"{ACTOR}.use_dynamic_bsz")
    for prefix, section, dynamic, phase in roles:
        if switch(flat, f"{section}.{dynamic}", dynamic_actor):
            found.append((f"{prefix}max_token_len_per_gpu", phase, _LARGEST_BUDGET_TOKENS))
        else:
            # More than the rank's share of the batch is never put together.
            share = int(share_samples(flat, phase, actor_shape(flat, gpus)))
            found.append((f"{prefix}micro_batch_size_per_gpu", phase, max(share, 1)))
    return found


def _largest_utilisation(flat: Flat, model: ModelFacts, machine: Machine) -> float | None:
    key = f"{ROLLOUT}.gpu_memory_utilization"
    if forecast(flat, model, machine.gpu_memory_gb, machine.gpus).rollout.elsewhere:
        return None

    def fits(percent: int) -> bool:
        made = forecast(
            _with(flat, key, percent / _UTILISATION_STEPS), model, machine.gpu_memory_gb, machine.gpus
        )
        # The rollout engine's own check that the cache suffices bounds it from below, not from above.
        return all(_under(made, phase, machine) for phase in ("rollout_start", "rollout"))

    percent = _largest(fits, 1, _UTILISATION_STEPS)
    return None if percent is None else percent / _UTILISATION_STEPS


def _phase_fits(flat: Flat, model: ModelFacts, machine: Machine, lengths: Lengths | None, phase: str) -> bool:
    made = forecast(flat, model, machine.gpu_memory_gb, machine.gpus, machine.host_memory_gb, lengths)
    return _under(made, phase, machine)


def _under(made: MemoryForecast, phase: str, machine: Machine) -> bool:
    peak_gb = made.peak_of(phase)
    return peak_gb is None or peak_gb <= min(machine.limit_frac, USABLE_FRAC) * made.capacity_gb


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest whole number in low..high that fits, where fitting is monotone; None: not even low."""
    if not fits(low):
        return None
    if fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _with(flat: Flat, key: str, value: float) -> Flat:
    return {**flat, key: value}
