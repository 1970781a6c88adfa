"""Polls verl's replay buffer more often: its 2 s would be most of a tiny trial's step.

The interval is a constructor default without a configuration key (verl 0.9.1
trainer/ppo/v1/replay_buffer.py:144), and the trainer sleeps that long between looks (:409).
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

REPLAY_BUFFER_MODULE = "verl.trainer.ppo.v1.replay_buffer"


def turn_on(poll_s: float) -> None:
    """Let every replay buffer of this process sleep `poll_s` seconds between two looks."""

    def patch(module: Any) -> None:
        construct = module.ReplayBuffer.__init__

        @wraps(construct)
        def construct_polling_faster(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            self.poll_interval = poll_s

        module.ReplayBuffer.__init__ = construct_polling_faster

    after_import(REPLAY_BUFFER_MODULE, patch)
