"""A sound configuration as rules see it, and ways to spoil it."""

from __future__ import annotations

from typing import Any

from autotune.verl_config.rules.rule import Finding, Setting
from autotune.verl_config.rules.table import findings
from autotune.verl_config.schema.released import released_schema

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"

SOUND: dict[str, Any] = {
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": 64,
    "data.max_prompt_length": 512,
    "data.max_response_length": 1024,
    f"{ACTOR}.ppo_mini_batch_size": 32,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 8,
    f"{ACTOR}.use_kl_loss": True,
    f"{REF}.log_prob_micro_batch_size_per_gpu": 8,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.n": 8,
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 8,
    f"{ROLLOUT}.max_model_len": 1536,
    "trainer.n_gpus_per_node": 8,
    "trainer.experiment_name": "mine",
}
QWEN_7B: dict[str, Any] = {
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "hidden_size": 3584,
    "max_position_embeddings": 32768,
}


def setting(
    *,
    version: str = "0.9.1",
    gpus: int = 8,
    config_name: str = "ppo_trainer",
    drop: tuple[str, ...] = (),
    **more: Any,
) -> Setting:
    """The sound configuration; `values` go over it, keys with `+` as a user writes them."""
    values = {**SOUND, **more.pop("values", {})}
    return Setting(
        schema=released_schema(version, config_name),
        given={key.lstrip("+"): value for key, value in values.items() if key not in drop},
        added=frozenset(key.lstrip("+") for key in values if key.startswith("+")),
        gpus=gpus,
        **more,
    )


def found(**how: Any) -> list[Finding]:
    """All findings on such a configuration."""
    return findings(setting(**how))


def found_ids(**how: Any) -> set[str]:
    """The rules that apply to it."""
    return {finding.rule for finding in found(**how)}
