"""Writes a first job file: sound for any number of GPUs, commented where a person has to choose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

PROMPTS_PER_GPU = 64
"""Of one step; a quarter of them make one optimizer step."""
_VLLM_EXTENSION = "autotune.verl_plugin.cpu_vllm.Extension"
_NO_KL = """\
# This run has no KL term, so nobody measures how far the policy goes: no KL guard, and the quality stage
# cannot show that it stayed in its band. actor.use_kl_loss: true with a kl_loss_coef of 0 would measure it.
guards: {}
"""
RESPONSES = {"grpo": 8, "ppo": 1}
"""To a prompt. A power of two, so that micro batches of any power of two divide the samples."""


def first_job(  # noqa: PLR0913, PLR0917
    name: str,
    model_path: str,
    train_files: str | Sequence[str],
    val_files: str | Sequence[str],
    gpus: int,
    reward_path: str | None = None,
    algorithm: str = "grpo",
    device: str = "gpu",
) -> str:
    """The YAML text of a job with all three stages, which `load_job` takes as it is.

    Args:
        name: Job name; also the name of its database.
        model_path: Local folder or hub id.
        train_files: Parquet file or files.
        val_files: Parquet file or files.
        gpus: GPUs of one trial on one node; on CPU, data-parallel ranks.
        reward_path: Python file with the reward function; None: verl's own, by the rows' data_source.
        algorithm: `grpo`, or `ppo`, which trains a critic of the same model.
        device: `gpu`, or `cpu` for a machine without GPUs and a tiny model.

    Raises:
        ValueError: another algorithm or device.
    """
    if algorithm not in RESPONSES or device not in ("gpu", "cpu"):
        raise ValueError(f"no first job for algorithm {algorithm!r} on device {device!r}")
    sections = [
        _head(name),
        _algorithm(algorithm),
        _data(train_files, val_files, gpus),
        _actor(model_path, gpus, algorithm, device),
        _rollout(gpus, algorithm, device),
        _critic(model_path) if algorithm == "ppo" else "",
        _reward(reward_path),
        _device(device),
        _rest(gpus, algorithm, device),
    ]
    return "".join(sections)


def _head(name: str) -> str:
    return f"""\
# A first job. `autotune run THIS_FILE --dry-run` tells what it would do; `autotune run THIS_FILE` climbs.
name: {_quoted(name)}

verl:
  entry: verl.trainer.main_ppo
  config_name: ppo_trainer
  # verl's own keys, as on its command line. A + in front says that verl's defaults lack the key.
  overrides:
"""


def _algorithm(algorithm: str) -> str:
    if algorithm == "grpo":
        return """\
    algorithm.adv_estimator: grpo
    algorithm.use_kl_in_reward: false
"""
    return """\
    algorithm.adv_estimator: gae
    # Without a KL term nobody knows how far the policy went from where it began.
    algorithm.use_kl_in_reward: true
    algorithm.kl_ctrl.kl_coef: 0.001
"""


def _data(train_files: str | Sequence[str], val_files: str | Sequence[str], gpus: int) -> str:
    return f"""\
    data.train_files: {_quoted(train_files)}
    data.val_files: {_quoted(val_files)}
    # Prompts of one step. Longer prompts than the limit are left out, longer responses are cut.
    data.train_batch_size: {PROMPTS_PER_GPU * gpus}
    data.max_prompt_length: 512
    data.max_response_length: 512
    data.filter_overlong_prompts: true
    data.truncation: error
"""


def _actor(model_path: str, gpus: int, algorithm: str, device: str) -> str:
    on_gpu = str(device == "gpu").lower()
    kl_loss = "true\n    actor_rollout_ref.actor.kl_loss_coef: 0.001" if algorithm == "grpo" else "false"
    return f"""\
    actor_rollout_ref.model.path: {_quoted(model_path)}
    actor_rollout_ref.model.use_remove_padding: {on_gpu}
    actor_rollout_ref.model.enable_gradient_checkpointing: true
    # Full fine-tuning of a model of some billion parameters; a smaller one wants more.
    actor_rollout_ref.actor.optim.lr: 1e-6
    # Prompts of one optimizer step.
    actor_rollout_ref.actor.ppo_mini_batch_size: {PROMPTS_PER_GPU // 4 * gpus}
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 4
    actor_rollout_ref.actor.use_kl_loss: {kl_loss}
"""


def _rollout(gpus: int, algorithm: str, device: str) -> str:
    tensor_parallel = 2 if device == "gpu" and gpus % 2 == 0 else 1
    return f"""\
    actor_rollout_ref.rollout.name: vllm
    actor_rollout_ref.rollout.n: {RESPONSES[algorithm]}
    actor_rollout_ref.rollout.tensor_model_parallel_size: {tensor_parallel}
    actor_rollout_ref.rollout.gpu_memory_utilization: {0.5 if device == "gpu" else 0.1}
    # Prompt and response together; without it the KV cache is laid out for the model's own maximum.
    actor_rollout_ref.rollout.max_model_len: 1024
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu: 4
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu: 4
"""


def _critic(model_path: str) -> str:
    return f"""\
    critic.model.path: {_quoted(model_path)}
    critic.optim.lr: 1e-5
    # verl checks the micro batch, but packs the critic's passes by the token budget below it.
    critic.ppo_micro_batch_size_per_gpu: 4
    +critic.ppo_infer_max_token_len_per_gpu: 16384
"""


def _reward(reward_path: str | None) -> str:
    if reward_path is None:
        return "    # reward.custom_reward_function.path: my_reward.py   # None: verl's, by data_source\n"
    return f"""\
    reward.custom_reward_function.path: {_quoted(reward_path)}
    reward.custom_reward_function.name: compute_score
"""


def _device(device: str) -> str:
    if device == "gpu":
        return ""
    return f"""\
    # What verl needs on a machine without GPUs.
    data.dataloader_num_workers: 0
    +actor_rollout_ref.model.override_config.attn_implementation: sdpa
    actor_rollout_ref.actor.strategy: fsdp2
    actor_rollout_ref.actor.fsdp_config.use_torch_compile: false
    +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype: fp32
    actor_rollout_ref.ref.fsdp_config.use_torch_compile: false
    +actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype: fp32
    actor_rollout_ref.rollout.dtype: float32
    actor_rollout_ref.rollout.enforce_eager: true
    actor_rollout_ref.rollout.free_cache_engine: false
    +actor_rollout_ref.rollout.enable_sleep_mode: false
    +actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls: {_VLLM_EXTENSION}
    actor_rollout_ref.rollout.agent.num_workers: 1
    actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes: 16
    reward.num_workers: 1
    transfer_queue.backend.SimpleStorage.num_data_storage_units: 1
"""


def _rest(gpus: int, algorithm: str, device: str) -> str:
    kl_metric = "actor/kl_loss" if algorithm == "grpo" else "actor/reward_kl_penalty"
    return f"""\
    trainer.n_gpus_per_node: {gpus}
    trainer.nnodes: 1

{closing_sections(gpus, device, shipped_spaces(algorithm, device), kl_metric)}"""


def shipped_spaces(algorithm: str, device: str) -> dict[str, str]:
    """Stage to the shipped search space that fits; `algorithm` and `device` as in `first_job`."""
    system = "fsdp" if device == "gpu" else "tiny_cpu"
    quality = f"quality_{algorithm}" if device == "gpu" or algorithm == "ppo" else "quality_tiny_cpu"
    return {"survive": f"survive_{system}", "speed": f"speed_{system}", "quality": quality}


def closing_sections(gpus: int, device: str, spaces: Mapping[str, str], kl_metric: str | None) -> str:
    """The sections after `verl:` as YAML text.

    Args:
        gpus: GPUs of one trial on one node.
        device: `gpu` or `cpu`.
        spaces: Stage to what stands behind its `search_space:`.
        kl_metric: What the KL guard watches; None: the run has no KL term, hence no guard.
    """
    guards = f"guards:\n  kl_metric: {kl_metric}\n  kl_limit: 0.5\n" if kl_metric else _NO_KL
    return f"""\
resources:
  device: {device}
  gpus_per_trial: {gpus}

# Whatever runs out first stops the job; the same command goes on once it is raised.
budget:
  gpu_hours: {24 * gpus}

{guards}
# A stage that is left out is not climbed. Spaces: a shipped name, a file, or the parameters themselves.
stages:
  survive:
    search_space: {spaces["survive"]}
    steps: 10
    trials: 12
  speed:
    search_space: {spaces["speed"]}
    steps: 8
    trials: 20
  quality:
    search_space: {spaces["quality"]}
    steps: 50
    trials: 12
"""


def _quoted(value: str | Sequence[str]) -> str:
    """The value as YAML in double quotes, which JSON's notation is."""
    return json.dumps(value if isinstance(value, str) else list(value))
