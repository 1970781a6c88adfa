"""The sizes that verl's rules speak of, read once from a flat resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from autotune.records import Value

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"


GPUS = "trainer.n_gpus_per_node"


def gpus_of(flat: Mapping[str, Value], otherwise: int) -> int:
    """GPUs that a trial of this configuration holds (CPU: ranks); a trial lives on one node.

    Args:
        flat: Dotted keys to values, resolved or overrides alone.
        otherwise: Where they do not say: `resources.gpus_per_trial`.
    """
    value = flat.get(GPUS)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise


@dataclass(frozen=True)
class TrainingShape:
    """One configuration on so many GPUs. None: unset, or not a number."""

    flat: Mapping[str, Value]
    gpus: int

    def count(self, key: str) -> int | None:
        """The whole number at `key`."""
        value = self.flat.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, key: str) -> float | None:
        """The number at `key`."""
        value = self.flat.get(key)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def degree(self, key: str) -> int:
        """A parallel degree; 1 where unset."""
        return self.count(key) or 1

    @property
    def strategy(self) -> str:
        """The actor's engine: fsdp, fsdp2, megatron..."""
        return str(self.flat.get(f"{ACTOR}.strategy"))

    @property
    def is_fsdp(self) -> bool:
        """True for every FSDP engine."""
        return self.strategy.startswith("fsdp")

    @property
    def is_megatron(self) -> bool:
        """True for the Megatron engine."""
        return self.strategy == "megatron"

    @property
    def packs_by_tokens(self) -> bool:
        """actor.use_dynamic_bsz."""
        return bool(self.flat.get(f"{ACTOR}.use_dynamic_bsz"))

    @property
    def uses_reference(self) -> bool:
        """A reference policy is asked for its log-probs."""
        return bool(self.flat.get(f"{ACTOR}.use_kl_loss") or self.flat.get("algorithm.use_kl_in_reward"))

    @property
    def uses_critic(self) -> bool:
        """A value model is trained beside the actor."""
        enabled = self.flat.get("critic.enable")
        return bool(enabled) if enabled is not None else self.flat.get("algorithm.adv_estimator") == "gae"

    @property
    def uses_lora(self) -> bool:
        """Adapters are trained; the reference is then the actor's own base model."""
        rank, adapter = self.lora_rank, self.flat.get(f"{MODEL}.lora_adapter_path")
        return rank > 0 or adapter is not None

    @property
    def lora_rank(self) -> int:
        """Rank of the adapters; 0 without."""
        return self.count(f"{MODEL}.lora.rank") or self.count(f"{MODEL}.lora_rank") or 0

    def sequence_parallel(self, section: str) -> int:
        """GPUs that share one sequence in `section` (Ulysses, or Megatron's context parallel)."""
        if self.is_megatron:
            return self.degree(f"{section}.megatron.context_parallel_size")
        engine = "critic.fsdp" if section == "critic" else f"{section}.fsdp_config"
        own, old = (
            self.degree(f"{engine}.ulysses_sequence_parallel_size"),
            self.degree(f"{section}.ulysses_sequence_parallel_size"),
        )
        return max(own, old)

    @property
    def gpus_per_replica(self) -> int:
        """GPUs over which one copy of the actor is spread for one sequence."""
        if self.is_megatron:
            names = ("tensor_model", "pipeline_model", "context")
            tp, pp, cp = (self.degree(f"{ACTOR}.megatron.{name}_parallel_size") for name in names)
            return tp * pp * cp
        return self.sequence_parallel(ACTOR)

    @property
    def data_parallel(self) -> int | None:
        """Ranks with samples of their own; None where the GPUs do not divide."""
        return self.gpus // self.gpus_per_replica if self.gpus % self.gpus_per_replica == 0 else None

    @property
    def sequence_tokens(self) -> int | None:
        """Longest prompt plus longest response."""
        prompt, response = self.count("data.max_prompt_length"), self.count("data.max_response_length")
        return None if prompt is None or response is None else prompt + response

    def samples(self, prompts: int | None) -> int | None:
        """`prompts` times rollout.n."""
        repeats = self.count(f"{ROLLOUT}.n")
        return None if prompts is None or repeats is None else prompts * repeats

    @property
    def batch_samples_per_rank(self) -> int | None:
        """A rank's share of the batch, after verl has padded it to whole mini batches."""
        batch = self.samples(self.count("data.train_batch_size"))
        mini = self.samples(self.count(f"{ACTOR}.ppo_mini_batch_size"))
        ranks = self.data_parallel
        if not (batch and mini and ranks):
            return None
        multiple = lcm(ranks, mini)
        critic = self.samples(self.count("critic.ppo_mini_batch_size")) if self.uses_critic else None
        if critic:
            multiple = lcm(multiple, critic)
        return -(-batch // multiple) * multiple // ranks
