"""Texts that look like failures and are none, and how the last line of a traceback looks."""

from __future__ import annotations

import re


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


WRAPPER = _any(
    r"RayTaskError",
    r"ActorDiedError",
    r"RayActorError",
    r"ActorUnavailableError",
    r"OwnerDiedError",
    r"WorkerCrashedError",
    r"leaked (?:shared_memory|semaphore)",
    r"Engine core initialization failed",
    r"timed out \(attempt \d+",
    r"no materializable trajectories",
    r"EngineDeadError",
    r"ChildFailedError",
)
"""Texts that only pass on another failure: never a kind by themselves."""

QUOTED = _any(
    r"^\s*[\[({]*'[\w./-]+': ",
    r"^Error executing job with overrides",
    r"^ray init kwargs:",
    r"^step:\d+ - ",
    r"^\+* ?python3? ",
    r"RayTaskError\(\w+\): ray::",
)
"""Lines that quote the configuration, the command or another process; nothing in them failed."""

BENIGN = _any(r"\b(?:\w*Warning|WARNING|INFO|DEBUG)\b", r"Exception ignored in", r"falling back")
"""Marks of lines that report no failure, whatever they quote."""

EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:: |:?$)")
"""The last line of a traceback, once its frames were seen."""
