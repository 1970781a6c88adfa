"""Gives each trial its own socket for weights on their way from the trainer to vLLM.

verl builds the path from Ray's job id (verl 0.9.1 workers/rollout/vllm_rollout/vllm_rollout.py:141 in
the trainer, vllm_rollout/utils.py:431 in vLLM), and two private Ray clusters on one host both count from
job 01000000: the second trial would take over the first one's socket, and its weights, without an error.
"""

from __future__ import annotations

import hashlib
import tempfile
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

VERL_SOCKETS = "ipc:///tmp/rl-colocate-zmq-"
LONGEST_PATH = 100
"""Bytes; Linux takes 107 for a Unix socket."""


def turn_on(trial_key: str) -> None:
    """Rename the sockets of this process; both ends need the same key and the same TMPDIR."""

    def patch_trainer(module: Any) -> None:
        construct = module.ServerAdapter.__init__

        @wraps(construct)
        def construct_with_own_socket(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            self.zmq_handle = own_socket(self.zmq_handle, trial_key)

        module.ServerAdapter.__init__ = construct_with_own_socket

    def patch_rollout(module: Any) -> None:
        handle = module.vLLMColocateWorkerExtension._get_zmq_handle

        @wraps(handle)
        def own_handle(self: Any) -> str:
            return own_socket(handle(self), trial_key)

        module.vLLMColocateWorkerExtension._get_zmq_handle = own_handle

    after_import("verl.workers.rollout.vllm_rollout.vllm_rollout", patch_trainer)
    after_import("verl.workers.rollout.vllm_rollout.utils", patch_rollout)


def own_socket(handle: str, trial_key: str, folder: str | None = None) -> str:
    """Returns the handle with the trial's key in it, in the trial's temporary folder where that fits.

    Handles that are not verl's well-known path come back unchanged.
    """
    if not handle.startswith(VERL_SOCKETS):
        return handle
    key = hashlib.sha256(trial_key.encode()).hexdigest()[:12]
    name = f"weights-{key}-{handle[len(VERL_SOCKETS) :]}"
    path = f"{folder or tempfile.gettempdir()}/{name}"
    return "ipc://" + (path if len(path.encode()) < LONGEST_PATH else f"/tmp/{name}")
