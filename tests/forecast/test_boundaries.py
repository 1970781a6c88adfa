"""Searches for the largest batch that verl's example scripts record, against the forecast.

verl-project/verl at b178a3cd, examples/tuning/{70b,14b}/: samples per GPU that ran and that did not.
"""

import pytest

from autotune.forecast.gpu_spec import parse_gpu_spec
from autotune.forecast.memory import forecast
from autotune.forecast.model_facts import model_facts

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"


def _flat(samples, tensor_parallel, utilisation):
    return {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": "data/gsm8k/train.parquet",
        "data.train_batch_size": samples,
        "data.max_prompt_length": 512,
        "data.max_response_length": 1024,
        "actor_rollout_ref.model.lora_rank": 32,
        f"{_ACTOR}.strategy": "fsdp",
        f"{_ACTOR}.ppo_mini_batch_size": samples,
        f"{_ACTOR}.ppo_micro_batch_size": samples,
        f"{_ACTOR}.use_kl_loss": True,
        f"{_ACTOR}.entropy_coeff": 0.001,
        f"{_ACTOR}.ulysses_sequence_parallel_size": 2,
        f"{_ACTOR}.fsdp_config.param_offload": True,
        f"{_ACTOR}.fsdp_config.optimizer_offload": True,
        f"{_ROLLOUT}.name": "vllm",
        f"{_ROLLOUT}.n": 5,
        f"{_ROLLOUT}.tensor_model_parallel_size": tensor_parallel,
        f"{_ROLLOUT}.gpu_memory_utilization": utilisation,
        f"{_ROLLOUT}.max_num_batched_tokens": 1536,
        f"{_ROLLOUT}.log_prob_micro_batch_size": samples,
        "actor_rollout_ref.ref.log_prob_micro_batch_size": samples,
    }


@pytest.mark.parametrize(
    ("name", "gpus", "utilisation", "ran", "ran_out"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "8xH100-80GB", 0.4, 22, 23),
        ("Qwen/Qwen2.5-14B-Instruct", "2xH100-80GB", 0.25, 58, 59),
    ],
)
def test_the_recorded_boundary_is_met_within_a_tenth(name, gpus, utilisation, ran, ran_out):
    model, spec = model_facts(name), parse_gpu_spec(gpus)
    largest = max(
        samples
        for samples in range(1, 128)
        if forecast(
            _flat(samples * spec.count, spec.count, utilisation), model, spec.memory_gb, spec.count
        ).fits
    )
    assert largest + 0.5 == pytest.approx((ran + ran_out) / 2, rel=0.1)
