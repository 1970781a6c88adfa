"""What the rollout engine holds on each GPU: vLLM or SGLang, awake and asleep.

vLLM (>= 0.7) takes `gpu_memory_utilization` of the whole device and fits weights, the activations of a
profiling run and the key-value cache into it (vllm 0.24 v1/worker/gpu_worker.py determine_available_memory);
CUDA graphs come on top of it. SGLang reads the same number as `mem_fraction_static`: weights and cache
only, of what is free once it has its context and NCCL (sglang srt/model_executor/model_runner.py
init_torch_distributed, profile_max_num_token); activations and graphs come on top, out of the rest. With
`rollout.mode=sync` (verl up to 0.6.1's default) vLLM runs in the trainer's own process, and what is held
there already counts into its share: PyTorch's peak of the process, contexts and NCCL (vllm 0.8
v1/worker/gpu_worker.py determine_available_memory, `non_torch_allocations`).
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.forecast.hardware import GB
from autotune.forecast.keys import MODEL, ROLLOUT, Flat, count, number, switch
from autotune.forecast.lengths import limits
from autotune.forecast.model_facts import ModelFacts

CONTEXT_GB = 0.5
"""One process's CUDA context and library handles: 500 to 550 MiB in nvidia-smi on A100 and H100."""
ASLEEP_ALONE_GB = 0.76 - CONTEXT_GB
"""A sleeping vLLM process of one GPU without its context, which is counted apart: 774 MiB with it
(NVIDIA-NeMo/RL#223); 1.14 GB in vllm#32714."""
ASLEEP_SHARDED_GB = 4.8 - CONTEXT_GB
"""The same with tensor parallelism: 2440 and 7392 MiB in NVIDIA-NeMo/RL#223, the middle. What stays is
NCCL's (near 1 GiB a rank at TP 4, vllm#51485) and the CUDA graphs' (vllm#45648)."""
CUDA_TOTAL_FRAC = 79.11 / 79.65
"""Of the memory that NVML tells, what CUDA offers and vLLM takes its share of (vllm 0.24 utils/mem_utils.py
MemorySnapshot, `get_memory_info`): an H800 has 79.65 GB by NVML and 79.11 in verl#2828."""
GRAPHS_GB = 1.0
"""CUDA graphs of the default capture sizes; vLLM prints 0.5 to 1.5 GiB ("Graph capturing finished")."""
_BYTES = {"float32": 4, "fp32": 4, "float": 4}


@dataclass(frozen=True, kw_only=True)
class RolloutMemory:
    """GB per GPU of one rollout engine."""

    budget_gb: float
    """What it takes of the device when awake, without CUDA graphs."""
    weights_gb: float
    activations_gb: float
    graphs_gb: float
    cache_gb: float
    """Left for the key-value cache; negative: it cannot start."""
    sequence_cache_gb: float
    """Cache that one sequence of the longest length needs."""
    asleep_gb: float
    """What stays when it sleeps; the whole budget where it never does."""
    sleeps: bool
    in_process: bool = False
    """It lives in the trainer's own process, and shares its CUDA context."""
    elsewhere: bool = False
    """Not on the device that is forecast: on CPU the cap counts the trainer's worker alone."""

    @property
    def can_serve(self) -> bool:
        """The cache holds at least one sequence of the longest length, or lies elsewhere."""
        return self.elsewhere or self.cache_gb >= self.sequence_cache_gb


def in_trainer_process(flat: Flat) -> bool:
    """True where the engine lives in the trainer's own process."""
    return flat.get(f"{ROLLOUT}.mode") == "sync" and flat.get(f"{ROLLOUT}.name") != "sglang"


def rollout_memory(
    flat: Flat, model: ModelFacts, gpu_memory_gb: float, held_gb: float = 0.0
) -> RolloutMemory:
    """The engine of a configuration on GPUs of `gpu_memory_gb`, `held_gb` of which is taken at its start."""
    tensor = count(flat, f"{ROLLOUT}.tensor_model_parallel_size")
    width = _BYTES.get(str(flat.get(f"{ROLLOUT}.dtype")), 2)
    sglang = flat.get(f"{ROLLOUT}.name") == "sglang"
    experts_spread = count(flat, f"{ROLLOUT}.expert_parallel_size")
    weights_gb = model.parameters() * width / max(tensor, experts_spread) / GB
    activations_gb = _profiled_gb(flat, model, tensor, width)
    graphs_gb = 0.0 if switch(flat, f"{ROLLOUT}.enforce_eager") else GRAPHS_GB
    whole_gb = CUDA_TOTAL_FRAC * gpu_memory_gb - (held_gb if sglang else 0.0)
    share_gb = number(flat, f"{ROLLOUT}.gpu_memory_utilization", 0.5) * whole_gb
    if in_trainer_process(flat):
        share_gb = max(share_gb - held_gb, 0.0)
    budget_gb = share_gb + (activations_gb if sglang else 0.0)
    sleeps = switch(flat, f"{ROLLOUT}.free_cache_engine", True)
    asleep_gb = (ASLEEP_SHARDED_GB if tensor > 1 else ASLEEP_ALONE_GB) if sleeps else budget_gb + graphs_gb
    return RolloutMemory(
        budget_gb=budget_gb,
        weights_gb=weights_gb,
        activations_gb=activations_gb,
        graphs_gb=graphs_gb,
        cache_gb=budget_gb - weights_gb - activations_gb,
        sequence_cache_gb=_sequence_cache_bytes(flat, model, tensor, width) / GB,
        asleep_gb=asleep_gb,
        sleeps=sleeps,
        in_process=in_trainer_process(flat),
        elsewhere=flat.get("trainer.device") == "cpu",
    )


def cache_bytes_per_token(model: ModelFacts, tensor_parallel: int, width: int = 2) -> float:
    """Key-value cache of one token on one GPU; latent attention keeps one vector for all heads."""
    if model.kv_latent:
        return float(model.layers * (model.kv_latent + model.rope_dim) * width)
    heads = max(1.0, model.kv_heads / tensor_parallel)
    return 2.0 * model.layers * heads * model.head_dim * width


def _sequence_cache_bytes(flat: Flat, model: ModelFacts, tensor: int, width: int) -> float:
    longest = number(flat, f"{ROLLOUT}.max_model_len") or sum(limits(flat))
    return longest * cache_bytes_per_token(model, tensor, width)


def _profiled_gb(flat: Flat, model: ModelFacts, tensor: int, width: int) -> float:
    """The profiling run: one layer over the scheduler's token budget, then the sampler's fp32 logits."""
    tokens = count(flat, f"{ROLLOUT}.max_num_batched_tokens", 8192)
    sequences = min(count(flat, f"{ROLLOUT}.max_num_seqs", 256), tokens)
    mlp = max(model.intermediate, model.experts_per_token * model.moe_intermediate) / tensor
    layer = tokens * (2 * model.hidden + 3 * mlp) * width
    # Logits, their fp32 copy and the sampler's probabilities (vllm 0.24 v1/sample/sampler.py).
    sampler = sequences * model.vocab * (width + 4 + 4)
    adapters = 0.0
    if number(flat, f"{MODEL}.lora_rank"):
        adapters = tokens * number(flat, f"{MODEL}.lora_rank") * 7 * 4
    return (max(layer, sampler) + adapters) / GB
