"""The user's trackers beside the trial: verl's own loggers, but none of them can fail or hold up a trial.

verl's `Tracking` opens all backends in its constructor and lets their errors pass (verl 0.9.1
utils/tracking.py:63-167): without a network the trial would end in `wandb.init`. Here each mirrored
backend is opened by itself after the others; one that fails, or is slow, is said on the console and
left out from then on. `main_ppo` and a warm session close the tracker after each run, so that every
attempt is a run of its own there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

TRACKING_MODULE = "verl.utils.tracking"
SLOW_S = 10.0
"""One step's metrics that take longer are the last that a tracker is given."""
CLOSE_S = 15.0
"""How long the end of a run waits for a tracker's uploads."""
_UPLOADS_AT_END = frozenset({"wandb"})
"""Those whose `finish` waits for a server, for as long as it is away. MLflow's has to stay in its thread."""
_given_up: set[str] = set()
"""Those that this process waited for in vain, to open or to close; the next run would wait again."""


def turn_on(names: Sequence[str]) -> None:
    """Take the named backends for mirrors in this process."""

    def patch(module: Any) -> None:
        tracking = module.Tracking
        tracking.__init__ = opening_one_by_one(tracking.__init__, names)

    after_import(TRACKING_MODULE, patch)


def opening_one_by_one(
    construct: Callable[..., None], names: Sequence[str], now_s: Callable[[], float] = time.monotonic
) -> Callable[..., None]:
    """Wraps `Tracking.__init__`: what it was asked for, with the mirrors last and each on its own."""

    @wraps(construct)
    def opened(
        self: Any,
        project_name: str,
        experiment_name: str,
        default_backend: str | list[str] = "console",
        config: Any = None,
    ) -> None:
        asked = [default_backend] if isinstance(default_backend, str) else list(default_backend)
        construct(self, project_name, experiment_name, [name for name in asked if name not in names], config)
        for name in asked:
            if name not in names or name in _given_up:
                continue
            part = object.__new__(type(self))
            part.logger = {}
            began_s = now_s()
            try:
                construct(part, project_name, experiment_name, [name], config)
                self.logger.update({key: Mirror(key, backend) for key, backend in part.logger.items()})
            except Exception as error:
                say(name, f"it could not be opened: {type(error).__name__}: {error}")
                if now_s() - began_s > SLOW_S:
                    _given_up.add(name)
            # The part has a `__del__` that closes what it holds.
            part.logger, part._finished = {}, True

    return opened


class Mirror:
    """One opened backend, as `Tracking` uses it."""

    def __init__(
        self,
        name: str,
        backend: Any,
        *,
        now_s: Callable[[], float] = time.monotonic,
        slow_s: float = SLOW_S,
        close_s: float = CLOSE_S,
    ) -> None:
        self._name = name
        self._backend = backend
        self._now_s = now_s
        self._slow_s = slow_s
        self._close_s = close_s
        self._is_on = True

    def log(self, *args: Any, **kwargs: Any) -> None:
        """Gives the metrics on, as long as that goes well."""
        if not self._is_on:
            return
        started_s = self._now_s()
        try:
            self._backend.log(*args, **kwargs)
        except Exception as error:
            self._turn_off(f"{type(error).__name__}: {error}")
            return
        took_s = self._now_s() - started_s
        if took_s > self._slow_s:
            self._turn_off(f"one step's metrics took {took_s:.0f} s")

    def finish(self, *args: Any, **kwargs: Any) -> None:
        """Closes the backend's run, or leaves it to itself where that takes too long."""
        if self._name not in _UPLOADS_AT_END:
            self._finish(*args, **kwargs)
            return
        closing = threading.Thread(target=self._finish, args=args, kwargs=kwargs, daemon=True)
        closing.start()
        closing.join(self._close_s)
        if closing.is_alive():
            _given_up.add(self._name)
            say(self._name, f"not closed after {self._close_s:g} s; this process sends no more there")

    def _finish(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._backend.finish(*args, **kwargs)
        except Exception as error:
            say(self._name, f"it could not be closed: {type(error).__name__}: {error}")

    def _turn_off(self, why: str) -> None:
        self._is_on = False
        say(self._name, f"{why}; no more of this run is sent there")


def say(name: str, text: str) -> None:
    """One line on the console of the trial, whatever the text holds."""
    print(f"autotune mirror {name}: {' '.join(text.split())[:300]}", flush=True)  # noqa: T201
