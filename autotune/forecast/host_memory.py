"""What a node's own memory must hold: offloaded states, the host-side reference, worker processes."""

from __future__ import annotations

from autotune.forecast.engine_shape import EngineShape, actor_shape, critic_shape, reference_shape
from autotune.forecast.hardware import GB
from autotune.forecast.keys import ROLLOUT, Flat, count, switch, uses_critic, uses_reference
from autotune.forecast.megatron import megatron_states
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.states import fsdp_states

WORKER_GB = 4.0
"""Resident memory of one GPU's worker with torch, NCCL and CUDA libraries, and its rollout process (a
verl worker on CPU takes 0.7 GB before the model; CUDA's host side adds 2 to 3 GB)."""
SERVICES_GB = 10.0
"""Trainer, Ray, 8 reward and 8 agent-loop workers at about 0.5 GB each."""


def host_terms(flat: Flat, model: ModelFacts, gpus: int) -> dict[str, float]:
    """GB of one node by owner."""
    per_node = min(gpus, count(flat, "trainer.n_gpus_per_node", 8))
    terms = {"workers": WORKER_GB * per_node, "services": SERVICES_GB}
    actor = actor_shape(flat, gpus)
    terms["actor_offload"] = _offloaded(model, actor) * per_node / GB
    if uses_reference(flat) and not actor.lora_rank:
        reference = reference_shape(flat, gpus)
        if not reference.megatron:
            terms["reference"] = fsdp_states(model, reference).parameters * per_node / GB
        elif reference.offload_parameters:
            terms["reference"] = megatron_states(model, reference).parameters * per_node / GB
    if uses_critic(flat):
        terms["critic_offload"] = _offloaded(model, critic_shape(flat, gpus), head=False) * per_node / GB
    if actor.lora_rank and switch(flat, f"{ROLLOUT}.free_cache_engine", True):
        # With adapters the engine sleeps at level 1, which keeps its weights on the host.
        copies = per_node / count(flat, f"{ROLLOUT}.tensor_model_parallel_size")
        terms["rollout_weights"] = model.parameters() * 2 * max(copies, 1.0) / GB
    return {name: gb for name, gb in terms.items() if gb > 0.0}


def _offloaded(model: ModelFacts, shape: EngineShape, *, head: bool = True) -> float:
    """Bytes of one rank's states that live on the host."""
    total = 0.0
    if shape.megatron:
        states = megatron_states(model, shape)
        parameters, optimizer, total = states.parameters, states.optimizer, states.host_optimizer
    else:
        cut = fsdp_states(model, shape, head=head)
        parameters, optimizer = cut.parameters, cut.optimizer
    total += parameters if shape.offload_parameters else 0.0
    return total + (optimizer if shape.offload_optimizer else 0.0)
