"""The open trials of a stage that have not started: each waits for its GPUs or for its turn.

Each is a trial in Optuna and in the store, so the strategy counts it, the sampler keeps away from it, and
a crash leaves what `resume.py` puts back in line. Whose turn it is says `ladder/turn.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.controller.flight import Flight
from autotune.job.resolved_space import ResolvedSpace, is_number
from autotune.ladder.turn import PASSED_AT_MOST, Open, Start, Turn, next_turn
from autotune.trial.launcher import Launcher
from autotune.trial.request import AttemptRequest
from autotune.verl_config.training_shape import GPUS
from autotune.verl_plugin.warm.live_keys import is_live

DEFAULT_BATCH = 3
"""Where the space has cold keys and the job names no number. A session then misses a key of two equally
likely values once in eight times rather than every second time, and the sampler has two results fewer."""


def batch_of(space: ResolvedSpace, asked: int | None, *, warm_sessions: bool) -> int:
    """Open trials among which a waiting session may choose; 1 where each of them could take any.

    Args:
        space: The stage's space.
        asked: What the job says; None: `DEFAULT_BATCH`.
        warm_sessions: Whether the job has them.
    """
    keys = [key for parameter in space.parameters for key in (parameter.key, *parameter.also)]
    if not warm_sessions or all(is_live(key.lstrip("+")) for key in keys):
        return 1
    return asked or DEFAULT_BATCH


def smallest_gpus(space: ResolvedSpace, otherwise: int) -> int:
    """GPUs of the smallest trial of the space; `otherwise` where all have that size."""
    for parameter in space.parameters:
        if parameter.key.lstrip("+") == GPUS:
            values = parameter.choices or (parameter.low,)
            return min((int(value) for value in values if is_number(value)), default=otherwise)
    return otherwise


@dataclass
class Waiting:
    """One open trial."""

    flight: Flight
    open: Open
    request: AttemptRequest | None
    """Of its first attempt; None where an interrupted controller left it, and it is made anew."""


class Line:
    """First opened, first started, but for what `next_turn` lets pass."""

    def __init__(self, launcher: Launcher, batch: int, passed_at_most: int = PASSED_AT_MOST) -> None:
        self._launcher = launcher
        self._batch = batch
        self._passed_at_most = passed_at_most
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, flight: Flight, gpus: int, request: AttemptRequest | None = None) -> None:
        """Puts an open trial at the end."""
        key = None if request is None else request.session_key
        self._waiting.append(Waiting(flight, Open(gpus, key), request))

    def turn(self, *, may_ask: bool) -> Turn:
        """What to do now."""
        return next_turn(
            [waiting.open for waiting in self._waiting],
            fits=lambda gpus: self._launcher.slots(gpus) > 0,
            warm=self._launcher.warm_keys(),
            batch=self._batch,
            may_ask=may_ask,
            passed_at_most=self._passed_at_most,
        )

    def take(self, turn: Start) -> Waiting:
        """The trial whose turn it is; it is in line no more, and those before it were passed."""
        for waiting in self._waiting[: turn.place]:
            waiting.open = replace(waiting.open, passed=waiting.open.passed + 1)
        return self._waiting.pop(turn.place)
