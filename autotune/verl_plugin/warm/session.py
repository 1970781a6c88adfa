"""`python -m autotune.verl_plugin.warm.session`: in place of `verl.trainer.main_ppo`, many candidates.

Takes the same arguments. Starts Ray and the workers as verl does (verl 0.9.1 trainer/main_ppo.py:42-105),
then serves the candidates of its inbox until somebody ends it. A candidate that fails ends the session as
it would end verl, with the same lines on the console: what comes after a failure is not to be trusted.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import hydra
import ray
from omegaconf import OmegaConf

from autotune.verl_plugin.warm.wire import (
    CONFIG_FILE,
    SESSION_FOLDER,
    SessionMark,
    handed_over,
    write_mark,
)

POLL_S = 0.05
"""Between two looks into the inbox."""


@ray.remote
class SessionRunner:
    """Takes the place of verl's `TaskRunnerV1`."""

    def run(self, config: Any) -> None:
        """Serves candidates; never returns by itself."""
        from verl.utils.logging_utils import configure_verl_logging

        configure_verl_logging()
        import transfer_queue as tq

        session = Path(os.environ[SESSION_FOLDER])
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        tq.init(config.transfer_queue)
        try:
            _serve(config, session)
        finally:
            tq.close()


def _serve(config: Any, session: Path) -> None:
    from autotune.verl_plugin.warm.candidate import CandidateStoppedError, Trainee

    trainee = Trainee(config, session)
    number = 0
    while True:
        attempt = handed_over(session, number)
        if attempt is None:
            time.sleep(POLL_S)
            continue
        number += 1
        started_s = time.monotonic()
        write_mark(attempt, SessionMark("preparing"))
        trainee.prepare(candidate_config(attempt, like=config), attempt)
        prepared_s = time.monotonic() - started_s
        write_mark(attempt, SessionMark("running", prepared_s))
        try:
            trainee.train()
        except CandidateStoppedError:
            write_mark(attempt, SessionMark("stopped", prepared_s))
        else:
            write_mark(attempt, SessionMark("completed", prepared_s))


def candidate_config(attempt: Path, *, like: Any) -> Any:
    """The candidate's configuration, with the parts that belong to the running processes."""
    config = OmegaConf.load(attempt / CONFIG_FILE)
    OmegaConf.resolve(config)
    config.ray_kwargs = like.ray_kwargs
    config.transfer_queue = like.transfer_queue
    OmegaConf.set_struct(config, True)
    return config


@hydra.main(config_path=None, version_base=None)  # type: ignore[untyped-decorator]
def main(config: Any) -> None:
    """Checks the first candidate's configuration as verl does, then serves."""
    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    auto_set_device(config)
    validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    run_ppo(config, task_runner_class=SessionRunner)


if __name__ == "__main__":
    main()
