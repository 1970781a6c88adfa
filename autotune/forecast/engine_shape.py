"""How one model of a run (actor, reference, critic) is spread over GPUs and what its engine keeps."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.forecast.keys import ACTOR, CRITIC, MODEL, REFERENCE, Flat, count, number, switch

_BYTES = {"fp32": 4, "float32": 4, "float": 4, "32": 4}
_DEFAULT_CHUNK_TOKENS = 2048
"""verl 0.9.1 utils/torch_functional.py:209, entropy_from_logits_with_chunking."""


@dataclass(frozen=True, kw_only=True)
class EngineShape:
    """Parallel sizes, precision, offload and recomputation of one model's engine."""

    megatron: bool = False
    fsdp2: bool = False
    gpus: int = 1
    shards: int = 1
    """FSDP: ranks that share one copy of the parameters (`fsdp_size`; all ranks by default)."""
    sequence_parallel: int = 1
    """Ulysses: ranks that share one sequence."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int = 1
    context_parallel: int = 1
    first_stage_layers: int = 0
    """Of the first pipeline stage, where it has a number of its own; 0: it has not."""
    last_stage_layers: int = 0
    embedding_as_layer: bool = False
    """The embedding takes a layer's place in the first stage."""
    loss_as_layer: bool = False
    parameter_bytes: int = 4
    """Of one kept parameter: verl trains with fp32 masters under FSDP."""
    compute_bytes: int = 2
    offload_parameters: bool = False
    offload_optimizer: bool = False
    offload_gradients: bool = False
    optimizer_on_cpu: bool = False
    """Megatron's hybrid optimizer: states stay on the host also during the update."""
    reshard_after_forward: bool = True
    lora_rank: int = 0
    checkpointing: bool = True
    """Only the input of each layer is kept for the backward pass."""
    flash_attention: bool = True
    remove_padding: bool = True
    fused_kernels: bool = False
    compiled_entropy: bool = True
    entropy_chunk_tokens: int = 0
    """0: the entropy is taken of all tokens at once."""
    unit_temperature: bool = True

    @property
    def data_parallel(self) -> int:
        """Ranks that see different samples."""
        if self.megatron:
            return max(
                1, self.gpus // (self.tensor_parallel * self.pipeline_parallel * self.context_parallel)
            )
        return max(1, self.gpus // self.sequence_parallel)

    @property
    def ranks_of_a_sample(self) -> int:
        """GPUs over which the tokens of one sample are spread."""
        return self.context_parallel if self.megatron else self.sequence_parallel


def actor_shape(flat: Flat, gpus: int) -> EngineShape:
    """The trained policy's."""
    return _shape(flat, gpus, ACTOR, f"{ACTOR}.fsdp_config", MODEL)


def reference_shape(flat: Flat, gpus: int) -> EngineShape:
    """The frozen reference policy's; under FSDP it always lives on the host.

    verl 0.9.1 workers/engine/fsdp/transformer_impl.py:428-433 (FSDP1) and 459-463 (FSDP2).
    """
    return _shape(flat, gpus, REFERENCE, f"{REFERENCE}.fsdp_config", MODEL)


def critic_shape(flat: Flat, gpus: int) -> EngineShape:
    """The value model's; its engine section is `critic.fsdp` from 0.9, `critic.model.fsdp_config` before."""
    older = any(key.startswith("critic.model.fsdp_config.") for key in flat)
    section = "critic.model.fsdp_config" if older else "critic.fsdp"
    return _shape(flat, gpus, CRITIC, section, "critic.model")


def _shape(flat: Flat, gpus: int, role: str, section: str, model: str) -> EngineShape:
    strategy = flat.get(f"{role}.strategy") or flat.get(f"{ACTOR}.strategy")
    common = EngineShape(
        gpus=gpus,
        lora_rank=int(number(flat, f"{model}.lora_rank") or number(flat, f"{model}.lora.rank")),
        remove_padding=switch(flat, f"{model}.use_remove_padding", True),
        fused_kernels=switch(flat, f"{model}.use_fused_kernels"),
        unit_temperature=number(flat, "actor_rollout_ref.rollout.temperature", 1.0) == 1.0,
        entropy_chunk_tokens=_chunk_tokens(flat, role, section),
    )
    if strategy == "megatron":
        return _megatron(flat, common, f"{role}.megatron")
    sp = max(
        count(flat, f"{role}.ulysses_sequence_parallel_size"),
        count(flat, f"{section}.ulysses_sequence_parallel_size"),
    )
    fsdp_size = int(number(flat, f"{section}.fsdp_size", -1))
    attention = flat.get(f"{model}.override_config.attn_implementation")
    policy = switch(flat, f"{section}.offload_policy") and strategy == "fsdp2"
    return EngineShape(
        gpus=gpus,
        fsdp2=strategy == "fsdp2",
        shards=fsdp_size if 0 < fsdp_size < gpus else gpus,
        sequence_parallel=sp,
        parameter_bytes=_BYTES.get(str(flat.get(f"{section}.model_dtype") or "fp32"), 2),
        compute_bytes=_BYTES.get(str(flat.get(f"{section}.mixed_precision.param_dtype") or "bf16"), 2),
        offload_parameters=switch(flat, f"{section}.param_offload") or policy,
        offload_optimizer=switch(flat, f"{section}.optimizer_offload") or policy,
        offload_gradients=switch(flat, f"{section}.param_offload") or policy,
        optimizer_on_cpu=policy,
        reshard_after_forward=switch(flat, f"{section}.reshard_after_forward", True),
        lora_rank=common.lora_rank,
        checkpointing=switch(flat, f"{model}.enable_gradient_checkpointing", True),
        flash_attention=attention in (None, "flash_attention_2", "flash_attention_3"),
        remove_padding=common.remove_padding,
        fused_kernels=common.fused_kernels,
        compiled_entropy=switch(flat, f"{section}.use_torch_compile", True),
        entropy_chunk_tokens=common.entropy_chunk_tokens,
        unit_temperature=common.unit_temperature,
    )


def _megatron(flat: Flat, common: EngineShape, section: str) -> EngineShape:
    transformer = f"{section}.override_transformer_config"
    hybrid = f"{ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload"
    # Megatron's process groups are made once in a process, and all models of a run share it: the actor's
    # sizes hold for all (verl 0.9.1 workers/engine/megatron/transformer_impl.py, mpu.is_initialized).
    layout = f"{ACTOR}.megatron"
    tensor = count(flat, f"{layout}.tensor_model_parallel_size")
    return EngineShape(
        megatron=True,
        gpus=common.gpus,
        tensor_parallel=tensor,
        pipeline_parallel=count(flat, f"{layout}.pipeline_model_parallel_size"),
        expert_parallel=count(flat, f"{layout}.expert_model_parallel_size"),
        expert_tensor_parallel=count(flat, f"{layout}.expert_tensor_parallel_size", tensor),
        context_parallel=count(flat, f"{layout}.context_parallel_size"),
        first_stage_layers=int(number(flat, f"{transformer}.num_layers_in_first_pipeline_stage")),
        last_stage_layers=int(number(flat, f"{transformer}.num_layers_in_last_pipeline_stage")),
        embedding_as_layer=switch(flat, f"{transformer}.account_for_embedding_in_pipeline_split"),
        loss_as_layer=switch(flat, f"{transformer}.account_for_loss_in_pipeline_split"),
        parameter_bytes=2,
        offload_parameters=switch(flat, f"{section}.param_offload"),
        offload_optimizer=switch(flat, f"{section}.optimizer_offload"),
        offload_gradients=switch(flat, f"{section}.grad_offload") or switch(flat, f"{section}.param_offload"),
        optimizer_on_cpu=switch(flat, hybrid),
        lora_rank=common.lora_rank,
        checkpointing=flat.get(f"{transformer}.recompute_granularity") == "full",
        remove_padding=switch(flat, f"{section}.use_remove_padding", True),
        fused_kernels=common.fused_kernels,
        entropy_chunk_tokens=common.entropy_chunk_tokens,
        unit_temperature=common.unit_temperature,
    )


def _chunk_tokens(flat: Flat, role: str, section: str) -> int:
    chunking = switch(flat, f"{role}.entropy_from_logits_with_chunking") or switch(
        flat, f"{section}.entropy_from_logits_with_chunking"
    )
    return count(flat, f"{section}.entropy_from_logits_chunk_size", _DEFAULT_CHUNK_TOKENS) if chunking else 0
