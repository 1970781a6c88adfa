"""Configurations and architectures for the forecast's tests."""

from autotune.forecast.model_facts import facts_from_config
from autotune.records import Value

QWEN_7B = facts_from_config(
    {
        "model_type": "qwen2",
        "num_hidden_layers": 28,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
    "qwen2-7b",
)
QWEN_30B_A3B = facts_from_config(
    {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
    },
    "qwen3-30b-a3b",
)
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"


def flat(changes: dict[str, Value] | None = None) -> dict[str, Value]:
    """A GRPO run of eight GPUs under FSDP, with `changes` over it."""
    return {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 256,
        "data.max_prompt_length": 1024,
        "data.max_response_length": 1024,
        "trainer.n_gpus_per_node": 8,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        "actor_rollout_ref.model.use_remove_padding": True,
        f"{ACTOR}.strategy": "fsdp",
        f"{ACTOR}.ppo_mini_batch_size": 64,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": 8,
        f"{ACTOR}.use_kl_loss": True,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 16,
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 16,
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.n": 5,
        f"{ROLLOUT}.tensor_model_parallel_size": 2,
        f"{ROLLOUT}.gpu_memory_utilization": 0.5,
        **(changes or {}),
    }


def megatron(changes: dict[str, Value] | None = None) -> dict[str, Value]:
    """The same under Megatron with tensor and pipeline parallelism of two."""
    section = f"{ACTOR}.megatron"
    return flat(
        {
            f"{ACTOR}.strategy": "megatron",
            "actor_rollout_ref.ref.strategy": "megatron",
            f"{section}.tensor_model_parallel_size": 2,
            f"{section}.pipeline_model_parallel_size": 2,
            **(changes or {}),
        }
    )
