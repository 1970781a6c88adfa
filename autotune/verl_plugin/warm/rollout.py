"""The rollout side of a session: sampling settings and seed of the next candidate, or a new engine for it.

verl 0.9.1's agent loops and servers hold a copy of the configuration from their start
(experimental/agent_loop/agent_loop.py:491, workers/rollout/vllm_rollout/vllm_async_server.py:94).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from autotune.verl_plugin.after_import import after_import

RESEED = "autotune_reseed"
"""Name of the method that `turn_on` gives to vLLM's workers."""
NAME_LIMIT_S = 30.0
"""How long the name of a killed server may stay taken."""
_SERVER_SETTINGS = ("ignore_eos", "n", "temperature", "top_p", "top_k")


def restart_engine(trainer: Any, agent_loops: Any, config: Any) -> None:
    """Ends vLLM's servers and starts new ones for `config`; the training workers stay as they are.

    What knows the old servers is told of the new ones: the adapters in the training workers, which find them
    by name (workers/rollout/vllm_rollout/vllm_rollout.py:153-166), the weight sync, and the agent loops.
    """
    import ray
    from verl.workers.rollout.llm_server import LLMServerManager

    for replica in trainer.llm_server_manager.get_replicas():
        for server in replica.servers:
            ray.kill(server)
    ranks = trainer.actor_rollout_wg.workers
    ray.get(
        [
            rank.__ray_call__.remote(partial(_forget_server, section=config.actor_rollout_ref))
            for rank in ranks
        ]
    )
    _wait_for_free_names()
    servers = LLMServerManager.create(config=config, worker_group=trainer.actor_rollout_wg)
    trainer.llm_server_manager = servers
    trainer.checkpoint_manager.replicas = servers.get_replicas()
    client = servers.get_client()
    loops = agent_loops.agent_loop_workers
    ray.get([loop.__ray_call__.remote(partial(_set_client, client=client)) for loop in loops])


def configure(agent_loops: Any, servers: Any, config: Any) -> None:
    """Returns once every agent loop worker and every server has the candidate's settings.

    Args:
        agent_loops: verl's agent loop manager.
        servers: verl's LLM server manager.
        config: The candidate's whole configuration.
    """
    import ray

    rollout = config.actor_rollout_ref.rollout
    settings = {name: rollout[name] for name in _SERVER_SETTINGS if name in rollout}
    seed = int(rollout.get("seed") or 0)
    waiting = [
        loop.__ray_call__.remote(partial(_configure_agent_loop, config=config))
        for loop in agent_loops.agent_loop_workers
    ]
    for server in (server for replica in servers.get_replicas() for server in replica.servers):
        waiting.append(server.__ray_call__.remote(partial(_configure_server, settings=settings)))
        waiting.append(server.collective_rpc.remote(RESEED, args=(seed,)))
    ray.get(waiting)


def turn_on() -> None:
    """Lets vLLM's workers of this process be given a seed: a method more on verl's worker extension."""
    after_import("verl.workers.rollout.vllm_rollout.utils", _add_reseed)


def _add_reseed(module: Any) -> None:
    def reseed(self: Any, seed: int) -> None:
        import torch

        del self  # the sampler uses torch's own generators where a request brings no seed
        torch.manual_seed(seed)

    setattr(module.vLLMColocateWorkerExtension, RESEED, reseed)


def _wait_for_free_names() -> None:
    """Ray gives a killed actor's name free a little later."""
    import ray

    deadline = time.monotonic() + NAME_LIMIT_S
    while time.monotonic() < deadline:
        names = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]
        if not any(name.startswith("vllm_server_") for name in names):
            return
        time.sleep(0.05)


def _forget_server(worker_dict: Any, section: Any) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    for worker in worker_dict.worker_dict.values():
        if getattr(worker, "rollout", None) is not None:
            worker.rollout.server_handle = None
            worker.rollout.config = omega_conf_to_dataclass(section.rollout)


def _set_client(loop: Any, client: Any) -> None:
    loop.llm_client = client


def _configure_agent_loop(loop: Any, config: Any) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    loop.config = config
    loop.rollout_config = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)


def _configure_server(server: Any, settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        # A frozen dataclass that verl reads again for every request.
        object.__setattr__(server.config, name, value)
