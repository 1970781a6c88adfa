"""The door: verl imports this module in each of its processes, and it turns on what the environment asks.

Of verl's two routes only the environment variable is dependable: `VERL_USE_EXTERNAL_MODULES` imports the
module by name and lets an error end the process (verl 0.9.1 __init__.py:49-52), while an entry point of
the group `verl.plugins` is loaded but never called, and its errors are logged at DEBUG only (:60-76). So
the import itself registers. Both run inside `import verl`, after `verl.utils.device` and before any
worker or trainer module: early enough for every patch here, which all wait for the module they change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

ADAPTIVE_CLIPPING = "AUTOTUNE_ADAPTIVE_CLIPPING"
CPU = "AUTOTUNE_CPU"
LENGTH_BUCKETS = "AUTOTUNE_LENGTH_BUCKETS"
MEMORY_CAP_GB = "AUTOTUNE_CPU_MEMORY_CAP_GB"
MEMORY_CAP_DIR = "AUTOTUNE_MEMORY_CAP_DIR"
MIRRORS = "AUTOTUNE_MIRRORS"
PHASES_PATH = "AUTOTUNE_PHASES_PATH"
RANK_LOAD_PATH = "AUTOTUNE_RANK_LOAD_PATH"
REPLAY_POLL_S = "AUTOTUNE_REPLAY_POLL_S"
SESSION_FOLDER = "AUTOTUNE_SESSION_FOLDER"
TOKEN_CHECK = "AUTOTUNE_TOKEN_CHECK"
TRIAL_KEY = "AUTOTUNE_TRIAL_KEY"

_registered: set[str] = set()


def register() -> None:
    """Turn on what the environment asks for and is not on yet; safe to call again.

    Raises:
        ValueError: a variable that should be a positive number is not.
    """
    for name, turn_on in _features(os.environ):
        if name not in _registered:
            _registered.add(name)
            turn_on()


def registered() -> frozenset[str]:
    """The environment variables whose features are on in this process."""
    return frozenset(_registered)


def _features(environment: Mapping[str, str]) -> list[tuple[str, Callable[[], None]]]:
    # Imported only when asked: an import of verl without a request costs nothing.
    features: list[tuple[str, Callable[[], None]]] = []
    if environment.get(CPU) == "1":
        from autotune.verl_plugin import cpu_platform

        features.append((CPU, cpu_platform.turn_on))
    if environment.get(MEMORY_CAP_GB):
        from autotune.verl_plugin import memory_cap

        cap_gb = _positive(environment, MEMORY_CAP_GB)
        folder = environment.get(MEMORY_CAP_DIR)
        features.append((MEMORY_CAP_GB, lambda: memory_cap.turn_on(cap_gb, folder)))
    if environment.get(MIRRORS):
        from autotune.verl_plugin import mirrors

        names = environment[MIRRORS].split(",")
        features.append((MIRRORS, lambda: mirrors.turn_on(names)))
    if environment.get(PHASES_PATH):
        from autotune.verl_plugin import phases

        path, caps = environment[PHASES_PATH], environment.get(MEMORY_CAP_DIR)
        features.append((PHASES_PATH, lambda: phases.turn_on(path, caps)))
    features += _extensions(environment)
    if environment.get(RANK_LOAD_PATH):  # after the extensions: it describes the micro batches they make
        from autotune.verl_plugin import load_monitor

        load_path = environment[RANK_LOAD_PATH]
        features.append((RANK_LOAD_PATH, lambda: load_monitor.turn_on(load_path)))
    if environment.get(REPLAY_POLL_S):
        from autotune.verl_plugin import replay_poll

        poll_s = _positive(environment, REPLAY_POLL_S)
        features.append((REPLAY_POLL_S, lambda: replay_poll.turn_on(poll_s)))
    if environment.get(SESSION_FOLDER):
        from autotune.verl_plugin.warm import rollout

        features.append((SESSION_FOLDER, rollout.turn_on))
    if environment.get(TRIAL_KEY):
        from autotune.verl_plugin import trial_sockets

        key = environment[TRIAL_KEY]
        features.append((TRIAL_KEY, lambda: trial_sockets.turn_on(key)))
    return features


def _extensions(environment: Mapping[str, str]) -> list[tuple[str, Callable[[], None]]]:
    """What changes verl's own work; asked by the values that `verl_config.extensions` writes."""
    features: list[tuple[str, Callable[[], None]]] = []
    if environment.get(LENGTH_BUCKETS) == "sorted":
        from autotune.verl_plugin import length_buckets

        features.append((LENGTH_BUCKETS, length_buckets.turn_on))
    if environment.get(ADAPTIVE_CLIPPING):
        from autotune.verl_plugin import adaptive_clipping

        factor = _positive(environment, ADAPTIVE_CLIPPING)
        features.append((ADAPTIVE_CLIPPING, lambda: adaptive_clipping.turn_on(factor)))
    if environment.get(TOKEN_CHECK) == "first_step":
        from autotune.verl_plugin import token_check

        features.append((TOKEN_CHECK, token_check.turn_on))
    return features


def _positive(environment: Mapping[str, str], name: str) -> float:
    text = environment[name]
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise ValueError(f"{name}: found {text!r}; allowed: a positive number")
    return value


register()
