"""What somebody outside is told of a run; values only. `cli/delivery.py` carries them there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autotune.errors import (
    AutotuneError,
    InputError,
    NothingFeasibleError,
    StoppedError,
    StoreError,
    UserCodeError,
)
from autotune.job.model import Job, StorageSection
from autotune.job.outside import NoticeEvent
from autotune.job.paths import JobPaths
from autotune.records import Figures, FinishVerdict, StageName, StageResult

if TYPE_CHECKING:  # services hold who is told
    from autotune.controller.services import Services

FIGURES = (
    "tokens_per_s_per_gpu",
    "reward",
    "validation_reward",
    "kl",
    "peak_memory_frac",
    "peak_memory_gb",
    "step_s",
)
"""Of `records.Figures`, those that are told."""
_LONGEST_STATEMENT = 1000


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing that happened to a run."""

    event: NoticeEvent
    job: str
    outcome: str
    """A stage: `accepted`, `not accepted`, `nothing feasible`. A stop: `stopped`, `nothing feasible`,
    `bad input`, `user code`, `failed`. The finish and the end: its verdict, or `done`."""
    statement: str
    """For people."""
    stage: str | None = None
    acceptance_met: bool | None = None
    best: Mapping[str, float | int | None] = field(default_factory=dict)
    """Number and figures of the stage's best trial; at the end, of the last stage's."""
    exit_code: int | None = None
    """Of the command; None while it goes on."""
    see: Sequence[str] = ()
    """Commands that tell more."""

    @property
    def text(self) -> str:
        """The whole notice in one line."""
        what = {"stage_end": f"stage {self.stage} ended", "stop": "stopped", "finish": "came to its end"}
        return f"autotune {self.job}: {what[self.event]}, {self.outcome}: {self.statement}"

    def to_json(self) -> str:
        """One JSON object; `text` is the field that chat systems show."""
        return json.dumps({"text": self.text, **asdict(self)}, allow_nan=False)


class Notifier(Protocol):
    """Tells somebody outside; never fails the run and never holds it up."""

    def tell(self, notice: Notice) -> None:
        """Returns at once, whatever becomes of it."""
        ...


class SilentNotifier:
    """Tells nobody."""

    def tell(self, notice: Notice) -> None:
        """Nothing."""


def stage_notice(job: Job, result: StageResult) -> Notice:
    """A stage's end."""
    accepted = "accepted" if result.acceptance_met else "not accepted"
    return Notice(
        event="stage_end",
        job=job.name,
        stage=result.stage.value,
        outcome=accepted if result.best is not None else "nothing feasible",
        statement=result.statement,
        acceptance_met=result.acceptance_met,
        best=_best(result),
        see=_see(job),
    )


def finish_notice(job: Job, verdict: FinishVerdict) -> Notice:
    """The end of the finish, which is told like a stage's."""
    return Notice(
        event="stage_end",
        job=job.name,
        stage=StageName.FINISH.value,
        outcome=verdict.outcome.value,
        statement=verdict.statement,
        see=_see(job),
    )


def end_notice(
    job: Job,
    error: BaseException | None,
    results: Mapping[StageName, StageResult],
    verdict: FinishVerdict | None = None,
) -> Notice:
    """How the command ended.

    Args:
        job: The job.
        error: What ended it early; None where it came to its end.
        results: Of the stages so far.
        verdict: Of the finish.
    """
    last = list(results.values())[-1] if results else None
    done, statement = "done", "every stage asked for has its result"
    if last is not None:
        statement = f"{last.stage.value}: {last.statement}"
    if verdict is not None:
        done, statement = verdict.outcome.value, verdict.statement
    outcome, exit_code = (done, 0) if error is None else _why(error)
    return Notice(
        event="finish" if error is None else "stop",
        job=job.name,
        outcome=outcome,
        statement=statement if error is None else _words(error),
        acceptance_met=None if last is None else last.acceptance_met,
        best={} if last is None else _best(last),
        exit_code=exit_code,
        see=_see(job),
    )


@contextmanager
def end_is_told(services: Services) -> Iterator[None]:
    """Tells how what runs inside ended, whatever ended it."""
    try:
        yield
    except BaseException as error:  # a second Ctrl-C as well
        services.notifier.tell(_end(services, error))
        raise
    services.notifier.tell(_end(services, None))


def _end(services: Services, error: BaseException | None) -> Notice:
    try:
        results, verdict = services.store.stage_results(), services.store.finish_verdict()
    except StoreError:  # the disk is full, say; what ended the run is told all the same
        results, verdict = {}, None
    return end_notice(services.job, error, results, verdict)


def _why(error: BaseException) -> tuple[str, int]:
    """Outcome, and the exit code that the command line gives the error."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped", StoppedError.exit_code
    if not isinstance(error, AutotuneError):
        return "failed", AutotuneError.exit_code
    outcomes: tuple[tuple[type[AutotuneError], str], ...] = (
        (StoppedError, "stopped"),
        (NothingFeasibleError, "nothing feasible"),
        (UserCodeError, "user code"),
        (InputError, "bad input"),
    )
    outcome = next((word for kind, word in outcomes if isinstance(error, kind)), "failed")
    return outcome, error.exit_code


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if not isinstance(error, (AutotuneError, KeyboardInterrupt)):
        text = f"{type(error).__name__}: {error}"
    return text[:_LONGEST_STATEMENT]


def _best(result: StageResult) -> dict[str, float | int | None]:
    if result.best is None:
        return {}
    figures = asdict(result.best_figures or Figures())
    return {"trial": result.best, **{name: _finite(figures[name]) for name in FIGURES}}


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _see(job: Job) -> tuple[str, ...]:
    """Commands, from the folder that the run was started in; a database's URL may hold a password."""
    name = job.name
    if job.storage.url is not None:
        name = "JOB.yaml"
    elif job.storage.results != StorageSection().results:
        name = str(JobPaths(Path(job.storage.results), job.name).database)
    return tuple(f"autotune {command} --job {name}" for command in ("status", "trials", "report"))
