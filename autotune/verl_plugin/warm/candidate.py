"""Makes a running verl train one candidate after another, each from the same start.

Written against verl 0.9.1's `PPOTrainerSync` (trainer/ppo/v1/trainer_base.py). Everything that a candidate
may have touched is set again before the next one: weights, optimizer, scheduler and random state of each
rank, data order, replay buffer, KL controller, sampling settings and seed, step count. That the weights
and the optimizer are back is verified byte by byte.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from autotune.verl_plugin import load_monitor, phases
from autotune.verl_plugin.warm import rollout, workers
from autotune.verl_plugin.warm.live_keys import ENGINE_KEYS, MODEL_KEYS
from autotune.verl_plugin.warm.wire import (
    METRICS_FILE,
    PHASES_FILE,
    RANK_LOAD_FILE,
    TENSORBOARD_FOLDER,
    is_asked_to_stop,
)


class CandidateStoppedError(Exception):
    """The candidate was asked to end before its next step."""


class NotCleanError(RuntimeError):
    """The session does not start like a fresh process; it must end."""


def differs(before: Any, now: Any, keys: Iterable[str]) -> bool:
    """Whether two configurations say different things under any of the keys."""
    from omegaconf import OmegaConf

    return any(OmegaConf.select(before, key) != OmegaConf.select(now, key) for key in keys)


def stoppable(trainer_class: type[Any]) -> type[Any]:
    """The trainer class with a look, before each step, at whether the candidate is to end.

    Between two steps nothing is in flight: prompts of the last step are used up, weights are in the rollout.
    """

    class StoppableTrainer(trainer_class):  # type: ignore[misc]
        attempt: Path | None = None

        def on_step_begin(self) -> None:
            super().on_step_begin()
            if self.attempt is not None and is_asked_to_stop(self.attempt):
                raise CandidateStoppedError

    return StoppableTrainer


class Trainee:
    """verl's trainer and agents of one session, and the start that every candidate goes back to."""

    def __init__(self, config: Any, session: Path) -> None:
        """Starts everything once; `config` is the first candidate's."""
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ, get_trainer_cls

        self._start = session / "start"
        self._prints: list[dict[str, str]] = []
        self._trainer = stoppable(get_trainer_cls(config.trainer.v1.trainer_mode))(config=config)
        self._trainer.init()
        self._agents = AgentLoopManagerTQ.create(
            config=config,
            llm_client=self._trainer.get_llm_client(),
            teacher_client=None,
            reward_loop_worker_handles=self._trainer.get_reward_handles(),
        )

    def prepare(self, config: Any, attempt: Path) -> None:
        """Brings everything to the start and to the candidate's settings; nothing is trained yet.

        Raises:
            NotCleanError: A weight or an optimizer state differs from what the session started with.
        """
        trainer = self._trainer
        trainer.checkpoint_manager.sleep_replicas()
        if differs(trainer.config, config, MODEL_KEYS):
            section = config.actor_rollout_ref
            self._on_every_rank(partial(workers.build_models_anew, actor_rollout_ref=section))
        self._save_or_load()
        if differs(trainer.config, config, ENGINE_KEYS):
            rollout.restart_engine(trainer, self._agents, config)
        self._renew_trainer(config)
        critic = config.critic if trainer.use_critic else None
        self._on_every_rank(
            partial(workers.configure, actor_rollout_ref=config.actor_rollout_ref, critic=critic)
        )
        self._verify()
        trainer.checkpoint_manager.update_weights(0)
        rollout.configure(self._agents, trainer.llm_server_manager, config)
        trainer.attempt = attempt
        # `fit` opens verl's loggers anew for each candidate, and they read these then.
        os.environ["VERL_FILE_LOGGER_PATH"] = str(attempt / METRICS_FILE)
        os.environ["TENSORBOARD_DIR"] = str(attempt / TENSORBOARD_FOLDER)
        phases.write_to(str(attempt / PHASES_FILE))
        load_monitor.write_to(str(attempt / RANK_LOAD_FILE))
        self._on_every_rank(partial(workers.write_loads_to, path=str(attempt / RANK_LOAD_FILE)))

    def train(self) -> None:
        """Trains the prepared candidate to its last step.

        Raises:
            CandidateStoppedError: It was asked to end before.
        """
        stopped = True
        try:
            self._trainer.fit(self._agents)
            stopped = False
        finally:
            if stopped:
                self._trainer._shutdown_dump_executor()
            tracking = getattr(self._trainer, "logger", None)
            if tracking is not None:
                tracking.finish(exit_code=0)
            sys.stdout.flush()

    def _save_or_load(self) -> None:
        """The session's start: saved before anything was trained, loaded before each later candidate."""
        groups = {"actor": self._trainer.actor_rollout_wg}
        if self._trainer.use_critic:
            groups["critic"] = self._trainer.critic_wg
        for name, group in groups.items():
            folder = str(self._start / name)
            if self._prints:
                group.load_checkpoint(folder)
            else:
                group.save_checkpoint(folder, None, 0)

    def _renew_trainer(self, config: Any) -> None:
        """What `PPOTrainer.__init__` and `init` build from the configuration, without the workers."""
        trainer = self._trainer
        trainer.config = config
        trainer._init_dataloader()  # sets the optimizers' total_training_steps in `config`, too
        trainer._init_dump_executor()
        trainer.replay_buffer = trainer._build_replay_buffer()
        if config.algorithm.use_kl_in_reward:
            from verl.trainer.ppo.core_algos import get_kl_controller

            trainer.kl_ctrl_in_reward = get_kl_controller(config.algorithm.kl_ctrl)
        trainer.global_steps = 0
        trainer.local_trigger_step = 0

    def _verify(self) -> None:
        prints = self._on_every_rank(workers.fingerprint)
        if not self._prints:
            self._prints = prints
            return
        changed = sorted(
            name
            for before, now in zip(self._prints, prints, strict=True)
            for name in before.keys() | now.keys()
            if before.get(name) != now.get(name)
        )
        if changed:
            raise NotCleanError(
                f"not as at the session's start: {', '.join(changed[:5])} ({len(changed)} in all)"
            )

    def _on_every_rank(self, function: Any) -> list[Any]:
        import ray

        ranks = self._trainer.actor_rollout_wg.workers
        return list(ray.get([rank.__ray_call__.remote(function) for rank in ranks]))
