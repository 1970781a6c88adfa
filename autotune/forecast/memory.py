"""Peak memory of a verl configuration before it runs: every phase, every term, on each GPU and its host.

`forecast` is pure arithmetic. Each phase lists what is resident in it (states that are not offloaded, the
sleeping or waking rollout engine, contexts) and what the phase itself needs at its worst moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.forecast.engine_shape import actor_shape, critic_shape, reference_shape
from autotune.forecast.engine_terms import EngineTerms, allocator_slack
from autotune.forecast.host_memory import host_terms
from autotune.forecast.keys import Flat, uses_critic, uses_reference
from autotune.forecast.lengths import Lengths, expected_lengths
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.rollout import CONTEXT_GB, RolloutMemory, in_trainer_process, rollout_memory
from autotune.forecast.weight_sync import weight_sync_terms

NCCL_GB = 0.5
"""NCCL's ring buffers of a training process with several communicators (NCCL user guide, NCCL_BUFFSIZE:
4 MiB a channel and peer)."""
NCCL_NODE_GB = 2.0
"""More of them, and those of NVLink SHARP, where more than four GPUs of a node take part (NCCL user guide,
NCCL_NVLS_ENABLE). In verl#2828 a training process on nodes of eight GPUs holds 70.25 GB, of which PyTorch
has allocated 60.49 and kept 6.77: 2.99 besides, less its context and `NCCL_GB`."""
FEW_GPUS = 4
USABLE_FRAC = 0.985
"""Of the memory that NVML tells. CUDA keeps some (an H800 of 79.65 GB offers torch 79.11, verl#2828), and
so does what no term names: cuBLAS workspaces (32 MiB a stream on Hopper, cuBLAS documentation), kernels
loaded lazily, the 2 MiB granules of cudaMalloc."""


@dataclass(frozen=True, kw_only=True)
class PhasePeak:
    """The worst moment of one phase on one GPU."""

    phase: str
    """A name of `judge.phases.PHASES`."""
    terms: Mapping[str, float]
    """What takes the memory, in GB."""

    @property
    def peak_gb(self) -> float:
        """Sum of the terms."""
        return sum(self.terms.values())

    @property
    def largest_term(self) -> str:
        """Name of the term that takes most; empty where nothing is held."""
        return max(self.terms, key=lambda name: self.terms[name], default="")


@dataclass(frozen=True, kw_only=True)
class MemoryForecast:
    """What a configuration needs, phase by phase."""

    capacity_gb: float
    phases: tuple[PhasePeak, ...]
    host: Mapping[str, float] = field(default_factory=dict)
    """GB of one node's memory by owner."""
    host_capacity_gb: float | None = None
    rollout: RolloutMemory
    lengths: Lengths
    """What the samples were taken to be."""

    @property
    def worst(self) -> PhasePeak:
        """The phase with the highest peak."""
        return max(self.phases, key=lambda phase: phase.peak_gb)

    @property
    def peak_gb(self) -> float:
        """The highest peak on a GPU."""
        return self.worst.peak_gb

    @property
    def host_gb(self) -> float:
        """What one node's memory must hold."""
        return sum(self.host.values())

    @property
    def fits_host(self) -> bool:
        """True where the node's memory suffices or is not known."""
        return self.host_capacity_gb is None or self.host_gb <= self.host_capacity_gb

    @property
    def fits(self) -> bool:
        """Every peak is under the usable memory, the rollout engine can serve, the host suffices."""
        return self.peak_gb <= USABLE_FRAC * self.capacity_gb and self.rollout.can_serve and self.fits_host

    def peak_of(self, phase: str) -> float | None:
        """The peak of one phase in GB; None where the configuration does not have it."""
        return next((one.peak_gb for one in self.phases if one.phase == phase), None)


def forecast(
    flat: Flat,
    model: ModelFacts,
    gpu_memory_gb: float,
    gpus: int,
    host_memory_gb: float | None = None,
    lengths: Lengths | None = None,
) -> MemoryForecast:
    """What a resolved verl configuration needs.

    Args:
        flat: The configuration, dotted keys to values, verl's defaults included.
        model: The policy's architecture; a critic is taken to have the same.
        gpu_memory_gb: Memory of one GPU, as its driver tells it.
        gpus: GPUs of the run, over all nodes.
        host_memory_gb: Memory of one node; None: not checked.
        lengths: Measured lengths; None: what the job's data usually give.
    """
    run = _Run(flat, model, gpu_memory_gb, gpus, lengths or expected_lengths(flat))
    return MemoryForecast(
        capacity_gb=gpu_memory_gb,
        phases=tuple(run.phases()),
        host=host_terms(flat, model, gpus),
        host_capacity_gb=host_memory_gb,
        rollout=run.rollout,
        lengths=run.lengths,
    )


class _Run:
    """The models of one configuration, and what each phase finds resident."""

    def __init__(
        self, flat: Flat, model: ModelFacts, gpu_memory_gb: float, gpus: int, lengths: Lengths
    ) -> None:
        self.flat, self.model, self.gpus, self.lengths = flat, model, gpus, lengths
        self.actor = EngineTerms(model, actor_shape(flat, gpus), "actor")
        self.reference: EngineTerms | None = None
        if uses_reference(flat) and not self.actor.shape.lora_rank:
            self.reference = EngineTerms(model, reference_shape(flat, gpus), "reference", frozen=True)
        self.critic: EngineTerms | None = None
        if uses_critic(flat):
            self.critic = EngineTerms(model, critic_shape(flat, gpus), "critic", head=False)
        # Moments come with the first optimizer step, after the rollout engine has measured its room.
        held_gb = sum(sum(engine.resident_at_start().values()) for engine in self._engines())
        contexts_gb = self._contexts_gb(1 if in_trainer_process(flat) else 2)
        self.rollout = rollout_memory(flat, model, gpu_memory_gb, held_gb + contexts_gb)

    def _engines(self) -> list[EngineTerms]:
        return [engine for engine in (self.actor, self.reference, self.critic) if engine is not None]

    def phases(self) -> list[PhasePeak]:
        """All phases of the run, in its own order."""
        found = [
            self._phase("model_load", self.actor.load(), asleep=False),
            self._phase("rollout_start", self._awake(), asleep=False),
            self._phase("rollout", self._awake(), asleep=False),
            self._forward("old_log_prob", self.actor, entropy=True),
        ]
        if uses_reference(self.flat):
            found.append(self._forward("ref_log_prob", self.reference or self.actor, entropy=False))
        if self.critic is not None:
            found += [
                self._forward("values", self.critic, entropy=False),
                self._update("update_critic", self.critic),
            ]
        shape = self.actor.shape
        # FSDP2 hands over shard by shard, from the host where they are offloaded (transformer_impl.py:1014).
        staged = shape.megatron or not shape.fsdp2 or shape.lora_rank > 0 or not shape.offload_parameters
        sync = self.actor.loaded_parameters() if staged else {}
        sync["rollout_weights"] = self.rollout.weights_gb
        sync.update(weight_sync_terms(self.flat, self.model, self.actor.shape))
        checkpoint = {**self.actor.loaded_parameters(), **self.actor.loaded_optimizer()}
        return [
            *found,
            self._update("update_actor", self.actor),
            self._phase("weight_sync", sync, working=self.actor, asleep=not self.rollout.sleeps),
            self._phase("checkpoint", checkpoint, working=self.actor),
        ]

    def _forward(self, phase: str, engine: EngineTerms, *, entropy: bool) -> PhasePeak:
        terms = engine.forward(self.flat, phase, self.lengths, entropy=entropy)
        return self._phase(phase, terms, working=engine)

    def _update(self, phase: str, engine: EngineTerms) -> PhasePeak:
        return self._phase(phase, engine.update(self.flat, phase, self.lengths), working=engine)

    def _contexts_gb(self, processes: int) -> float:
        """Of so many processes, one of which trains."""
        contexts_gb = CONTEXT_GB * processes
        if self.gpus == 1:
            return contexts_gb
        return contexts_gb + NCCL_GB + (NCCL_NODE_GB if self.gpus > FEW_GPUS else 0.0)

    def _awake(self) -> dict[str, float]:
        terms = {
            "rollout_weights": self.rollout.weights_gb,
            "rollout_activations": self.rollout.activations_gb,
            "rollout_cache": max(self.rollout.cache_gb, 0.0),
        }
        return {**terms, "rollout_graphs": self.rollout.graphs_gb}

    def _phase(
        self,
        phase: str,
        own: Mapping[str, float],
        *,
        working: EngineTerms | None = None,
        asleep: bool = True,
    ) -> PhasePeak:
        """The phase's own terms, what other models keep on the GPU meanwhile, and the overheads."""
        terms = dict(own)
        if phase != "model_load":
            for engine in self._engines():
                if phase == "rollout_start":
                    terms.update(engine.resident_at_start())
                elif engine is not working:
                    terms.update(engine.resident())
                elif phase not in ("update_actor", "update_critic", "checkpoint"):
                    terms.update(engine.resident_optimizer())
        if self.rollout.elsewhere:
            # A capped worker stands for the device: it holds the trainer's models alone.
            own_terms = {name: gb for name, gb in terms.items() if not name.startswith("rollout_")}
            return PhasePeak(phase=phase, terms={name: gb for name, gb in own_terms.items() if gb > 0.0})
        terms["allocator_slack"] = allocator_slack(terms)
        processes = 1 if phase == "model_load" or self.rollout.in_process else 2
        terms["contexts"] = self._contexts_gb(processes)
        if asleep:
            terms["rollout_asleep"] = self.rollout.asleep_gb
        return PhasePeak(phase=phase, terms={name: gb for name, gb in terms.items() if gb > 0.0})
