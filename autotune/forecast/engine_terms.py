"""The memory terms of one model's engine in the phases that use it, FSDP or Megatron alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.forecast import activations
from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.hardware import GB
from autotune.forecast.keys import ACTOR, Flat, number, switch
from autotune.forecast.lengths import Lengths
from autotune.forecast.logits import forward_copies, logits_bytes, update_copies
from autotune.forecast.megatron import MASTERS_FRAC, megatron_activations, megatron_logits, megatron_states
from autotune.forecast.model_facts import ModelFacts
from autotune.forecast.states import fsdp_states, layer_parameters, root_parameters
from autotune.forecast.workload import MicroBatch, micro_batch

Terms = dict[str, float]
"""Name of a term to GB."""
SLACK_FRAC = 0.2
"""What PyTorch's caching allocator reserves beyond its tensors, over those whose size changes from one
micro batch to the next. A public verl log shows 39.7 GB reserved for 34.8 allocated
(perf/max_memory_*_gb), vllm#17117 51 for 46.2: near 5 GB both times, with about half of the tensors
changing in size. With expandable segments it is less."""
CHANGING_TERMS = (
    "activations",
    "logits",
    "layer_forward",
    "layer_recomputed",
    "layer_backward",
    "gathered_parameters",
)
"""Terms whose tensors change in size or come and go between others."""


def allocator_slack(terms: Mapping[str, float]) -> float:
    """GB that the caching allocator reserves beyond the tensors of these terms."""
    return SLACK_FRAC * sum(terms.get(name, 0.0) for name in CHANGING_TERMS)


@dataclass(frozen=True)
class EngineTerms:
    """One model, its engine and its name in the terms."""

    model: ModelFacts
    shape: EngineShape
    role: str
    head: bool = True
    """False: a value model, whose head is one column."""
    frozen: bool = False
    """Never trained: neither gradients nor optimizer."""

    def resident(self) -> Terms:
        """What stays on the GPU while another model works."""
        return {**self.resident_at_start(), **self.resident_optimizer()}

    def resident_at_start(self) -> Terms:
        """The same before the first optimizer step has made its states."""
        terms: Terms = {}
        if not self.shape.offload_parameters and not (self.frozen and not self.shape.megatron):
            terms[f"{self.role}_parameters"] = self._states()[0] / GB
            if self.shape.megatron and not self.frozen and not self.shape.offload_gradients:
                terms[f"{self.role}_gradients"] = self._states()[1] / GB
        if self.shape.megatron:
            masters = {name: gb * MASTERS_FRAC for name, gb in self.resident_optimizer().items()}
            return {**terms, **masters}
        return terms

    def resident_optimizer(self) -> Terms:
        """The optimizer's states, where they stay on the GPU outside the update."""
        if self.frozen or self.shape.offload_optimizer or self.shape.optimizer_on_cpu:
            return {}
        return {f"{self.role}_optimizer": self._states()[2] / GB}

    def loaded_parameters(self) -> Terms:
        """The parameters on the GPU, as when the model works."""
        return {f"{self.role}_parameters": self._states()[0] / GB}

    def loaded_optimizer(self) -> Terms:
        """The optimizer's states on the GPU, as during the update."""
        if self.frozen or self.shape.optimizer_on_cpu:
            return {}
        return {f"{self.role}_optimizer": self._states()[2] / GB}

    def load(self) -> Terms:
        """Building the engine: the shards, and one unit whole in the kept precision before it is cut."""
        terms = self.loaded_parameters()
        if not self.shape.megatron:
            unit = max(root_parameters(self.model, head=self.head), layer_parameters(self.model))
            terms["unit_before_sharding"] = unit * self.shape.parameter_bytes / GB
        return terms

    def forward(self, flat: Flat, phase: str, lengths: Lengths, *, entropy: bool) -> Terms:
        """A pass without gradients over the fullest micro batch."""
        batch = micro_batch(flat, phase, self.shape, lengths)
        layer = activations.forward_bytes(self.model, compute_bytes=self.shape.compute_bytes) * batch.tokens
        layer /= self.shape.tensor_parallel
        head = self._forward_head(batch, entropy=entropy)
        terms = {} if self._streamed else self.loaded_parameters()
        if not self.shape.megatron:
            terms["gathered_parameters"] = fsdp_states(self.model, self.shape, head=self.head).gathered / GB
        # The head runs when the last layer's temporaries are gone.
        if head >= layer:
            terms["logits"] = head / GB
        else:
            terms["layer_forward"] = layer / GB
        return terms

    def update(self, flat: Flat, phase: str, lengths: Lengths) -> Terms:
        """The worst moment of a training step: the head's, a layer's backward pass or the optimizer's."""
        batch = micro_batch(flat, phase, self.shape, lengths)
        entropy = phase == "update_actor" and (
            number(flat, f"{ACTOR}.entropy_coeff") != 0.0 or switch(flat, f"{ACTOR}.calculate_entropy")
        )
        moments = (self._megatron_moments if self.shape.megatron else self._moments)(batch, entropy)
        worst = max(moments, key=lambda terms: sum(terms.values()) + allocator_slack(terms))
        return {**self.loaded_parameters(), **self.loaded_optimizer(), **worst}

    @property
    def _streamed(self) -> bool:
        """FSDP's reference policy lives on the host and comes layer by layer."""
        return self.frozen and not self.shape.megatron

    def _states(self) -> tuple[float, float, float]:
        """Bytes of parameters, gradients and optimizer on one GPU."""
        if self.shape.megatron:
            whole = megatron_states(self.model, self.shape)
            return whole.parameters, whole.gradients, whole.optimizer
        cut = fsdp_states(self.model, self.shape, head=self.head)
        return cut.parameters, cut.gradients, cut.optimizer

    def _forward_head(self, batch: MicroBatch, *, entropy: bool) -> float:
        if not self.head:
            return 0.0
        if self.shape.megatron:
            return megatron_logits(self.model, self.shape, batch.tokens, entropy=entropy, training=False)
        copies = forward_copies(self.shape, entropy=entropy)
        return logits_bytes(self.model, self.shape, batch.tokens, copies)

    def _moments(self, batch: MicroBatch, entropy: bool) -> list[Terms]:
        model, shape, c = self.model, self.shape, self.shape.compute_bytes
        states = fsdp_states(model, shape, head=self.head)
        flash, width = shape.flash_attention, batch.sequence_tokens
        if shape.checkpointing:
            kept = activations.checkpoint_bytes(model, compute_bytes=c)
            again = activations.largest_layer_bytes(
                model, compute_bytes=c, flash=flash, sequence_tokens=width
            )
        else:
            kept = activations.saved_bytes(model, compute_bytes=c, flash=flash, sequence_tokens=width)
            again = 0.0
        kept, again = kept * batch.tokens, again * batch.tokens
        gathered = states.gathered / GB
        # Gradients of earlier micro batches are there already.
        earlier = states.gradients / GB if batch.accumulates else 0.0
        logits = 0.0
        if self.head:
            logits = logits_bytes(self.model, shape, batch.tokens, update_copies(shape, entropy=entropy)) / GB
        backward = activations.backward_bytes(self.model, compute_bytes=c) * batch.tokens
        at_head = {
            "gathered_parameters": gathered,
            "activations": kept / GB,
            "logits": logits,
            "gradients": earlier,
        }
        at_layer = {
            "gathered_parameters": gathered,
            "activations": kept / GB,
            "layer_recomputed": again / GB,
            "layer_backward": backward / GB,
            "gradients": states.gradients / GB,
            "unreduced_gradients": (states.layer_gradient + states.root_gradient) / GB,
        }
        at_step = {"gradients": states.gradients / GB, "optimizer_step": states.step / GB}
        return [at_head, at_layer, at_step]

    def _megatron_moments(self, batch: MicroBatch, entropy: bool) -> list[Terms]:
        states = megatron_states(self.model, self.shape)
        made = megatron_activations(self.model, self.shape, batch.tokens, entropy=entropy)
        gradients = states.gradients / GB
        first = {
            "activations": made.kept / GB,
            "layer_recomputed": made.recomputed / GB,
            "gradients": gradients,
        }
        # The last stage has one micro batch in flight, and the head.
        last = {
            "activations": made.kept_last / GB,
            "logits": made.logits / GB if self.head else 0.0,
            "gradients": gradients,
        }
        return [first, last]
