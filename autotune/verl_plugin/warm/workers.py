"""What a session does inside verl's training workers, sent there by `__ray_call__`.

A worker's actor, reference and critic are reached through verl 0.9.1's `WorkerDict.worker_dict`
(single_controller/ray/base.py:1004-1016). Both functions run on every rank at once.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import torch


def configure(worker_dict: Any, actor_rollout_ref: Any, critic: Any) -> None:
    """Makes this rank train the next candidate: live settings, loss, a fresh optimizer and scheduler.

    Args:
        worker_dict: verl's worker of this rank.
        actor_rollout_ref: The candidate's section of that name, with `actor.optim.total_training_steps` set.
        critic: The candidate's section of that name; None without a critic.
    """
    for worker in worker_dict.worker_dict.values():
        if hasattr(worker, "actor"):
            _configure_actor(worker, actor_rollout_ref)
            _configure_reference(worker, actor_rollout_ref)
        elif critic is not None:
            _configure_critic(worker, critic)
    gc.collect()
    _forget_memory_peaks()


def build_models_anew(worker_dict: Any, actor_rollout_ref: Any) -> None:
    """Lets go of this rank's actor and reference and builds them for the candidate, as at the start.

    By verl's own `ActorRolloutRefWorker.init_model`; the critic stays. The rollout adapter that comes with it
    finds its server by name again.
    """
    for worker in worker_dict.worker_dict.values():
        if not hasattr(worker, "actor"):
            continue
        worker.config = actor_rollout_ref.copy()  # `init_model` renames keys of it
        for trained in (worker.actor, worker.ref):
            if trained is not None:
                trained.engine.module = trained.engine.optimizer = trained.engine.checkpoint_manager = None
        worker.actor = worker.ref = None
        for registered in (worker._Worker__dispatch_dp_rank, worker._Worker__collect_dp_rank):
            registered.pop("actor", None)
            registered.pop("ref", None)
        gc.collect()
        _forget_memory_peaks()
        worker.init_model()


def write_loads_to(worker_dict: Any, path: str) -> None:
    """What this rank has to do goes to the candidate's own file from now on."""
    from autotune.verl_plugin import load_monitor

    del worker_dict  # one monitor a process
    load_monitor.write_to(path)


def fingerprint(worker_dict: Any) -> dict[str, str]:
    """A digest of every trained tensor on this rank, and of what its optimizer remembers.

    Two equal fingerprints mean equal bytes: parameters, buffers, optimizer state, scheduler step.
    """
    digests: dict[str, str] = {}
    for role, engine in _engines(worker_dict):
        for name, tensor in (*engine.module.named_parameters(), *engine.module.named_buffers()):
            digests[f"{role}.{name}"] = _digest(tensor)
        remembered = sum(len(state) for state in engine.optimizer.state.values())
        digests[f"{role}.optimizer"] = f"{remembered} states, step {engine.lr_scheduler.last_epoch}"
    return digests


def _configure_actor(worker: Any, section: Any) -> None:
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.utils.losses import ppo_loss

    actor = omega_conf_to_dataclass(section.actor)
    actor.model_config = worker.actor.model_config
    worker.config = section
    worker.loss_fn = partial(ppo_loss, config=actor)
    worker.actor.set_loss_fn(worker.loss_fn)
    # As in ActorRolloutRefWorker.init_model (workers/engine_workers.py:610-630).
    engine_config = worker.actor.engine_config
    engine_config.use_dynamic_bsz = section.actor.use_dynamic_bsz
    engine_config.infer_max_token_len_per_gpu = section.rollout.log_prob_max_token_len_per_gpu
    engine_config.infer_micro_batch_size_per_gpu = section.rollout.log_prob_micro_batch_size_per_gpu
    engine_config.max_token_len_per_gpu = section.actor.ppo_max_token_len_per_gpu
    engine_config.micro_batch_size_per_gpu = section.actor.ppo_micro_batch_size_per_gpu
    _renew_optimizer(worker.actor, actor.optim)


def _configure_reference(worker: Any, section: Any) -> None:
    if getattr(worker, "ref", None) is None:
        return
    engine_config = worker.ref.engine_config
    engine_config.use_dynamic_bsz = section.ref.log_prob_use_dynamic_bsz
    engine_config.infer_max_token_len_per_gpu = section.ref.log_prob_max_token_len_per_gpu
    engine_config.infer_micro_batch_size_per_gpu = section.ref.log_prob_micro_batch_size_per_gpu


def _configure_critic(worker: Any, section: Any) -> None:
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.utils.losses import value_loss

    critic = omega_conf_to_dataclass(section)
    worker.set_loss_fn(partial(value_loss, config=critic))
    # As in PPOTrainer._setup (trainer/ppo/v1/trainer_base.py:274-277): the critic always counts tokens, by
    # one budget, whatever critic.use_dynamic_bsz says.
    worker.engine_config.infer_max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
    worker.engine_config.max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
    _renew_optimizer(worker, critic.optim)


def _renew_optimizer(worker: Any, config: Any) -> None:
    """An optimizer without memory, and a scheduler at its first step, for the candidate's settings."""
    engine = worker.engine
    engine.optimizer.zero_grad(set_to_none=True)
    worker.optimizer_config = engine.optimizer_config = config
    engine.optimizer = engine._build_optimizer(engine.module)
    engine.lr_scheduler = engine._build_lr_scheduler(engine.optimizer)


def _engines(worker_dict: Any) -> Iterator[tuple[str, Any]]:
    for role, worker in worker_dict.worker_dict.items():
        trained = worker.actor if hasattr(worker, "actor") else worker
        if trained is not None:
            yield role, trained.engine


def _digest(tensor: torch.Tensor) -> str:
    local = tensor.detach()
    local = local.to_local() if hasattr(local, "to_local") else local
    data = (
        local.contiguous().cpu().view(torch.uint8)
        if local.dim()
        else local.cpu().reshape(1).view(torch.uint8)
    )
    return hashlib.blake2b(data.numpy().data, digest_size=16).hexdigest()


def _forget_memory_peaks() -> None:
    """The next candidate's peaks are its own: what was freed goes back to the device or the system."""
    from verl.utils.device import get_torch_device

    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
    device = get_torch_device()
    device.empty_cache()
    if hasattr(device, "reset_peak_memory_stats"):
        device.reset_peak_memory_stats()
