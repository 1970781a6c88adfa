"""One stage's Optuna study: ask, report, tell. Only here are Optuna's tables written, by `trial_rows.py`.

Only the controller's thread may use it; trials never open the database.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, check_distribution_compatibility
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from autotune.errors import Fault, StoreError
from autotune.job.space_resolution import ResolvedSpace
from autotune.records import Candidate, Overrides, StageName
from autotune.search.distributions import distribution, to_choice
from autotune.search.proposals import propose
from autotune.search.recall import Recall
from autotune.search.telling import Telling
from autotune.search.trial_rows import TrialRows

_STATES: Mapping[str, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "fail": TrialState.FAIL,
}
_LOCK_TIMEOUT_S = 60


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage on the job's own database."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not url.startswith("sqlite"):
        return RDBStorage(url)
    storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _LOCK_TIMEOUT_S}})
    event.listen(storage.engine, "connect", _as_our_tables)
    storage.engine.dispose()  # connections that were made before it listened
    return storage


def _as_our_tables(connection: sqlite3.Connection, _record: object) -> None:
    """As durable as our tables in the same file (store/database.py): a trial is told in a dozen commits."""
    connection.execute("PRAGMA synchronous=NORMAL")


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Around everything that touches Optuna's tables.

    Raises:
        StoreError: The database refused a call of Optuna's: full disk, read-only, locked too long.
    """
    try:
        yield
    except (StorageInternalError, OperationalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        found = str(getattr(cause, "orig", None) or cause or error)
        raise StoreError(
            Fault(
                where=url,
                key="storage",
                found=f"Optuna's tables cannot be used ({found})",
                next_step="free space on this disk, or close what else writes to the database; "
                "the same command goes on",
            )
        ) from error


def study_name(job_name: str, stage: StageName) -> str:
    """`tiny-cpu 1 survive`: the dashboard lists studies by name, so the order is part of it."""
    return f"{job_name} {list(StageName).index(stage) + 1} {stage.value}"


@dataclass
class _OpenTrial:
    """A trial that was asked for and not told."""

    trial: FrozenTrial
    curve: dict[int, float]
    """What was reported, by step."""


class StageStudy:
    """Asks for candidates and tells what became of them.

    asked (RUNNING) -> reported per step -> told (COMPLETE | PRUNED | FAIL), once.

    The study's trials are read when it is opened: since then all there is to know came through here.
    """

    def __init__(
        self, storage: RDBStorage, *, job_name: str, stage: StageName, space: ResolvedSpace, seed: int
    ) -> None:
        self._space = space
        self._seed = seed
        study = optuna.create_study(
            storage=storage,
            study_name=study_name(job_name, stage),
            direction="maximize",
            load_if_exists=True,
            # Proposals come from `propose`; the study's own sampler is never asked.
            sampler=optuna.samplers.RandomSampler(seed=seed),
        )
        self._rows = TrialRows(storage, study._study_id)
        self._shapes = {parameter.key: distribution(parameter) for parameter in space.parameters}
        self._recall = Recall()
        self._open: dict[int, _OpenTrial] = {}
        self._next_number = 0
        self._stored_shapes: dict[str, BaseDistribution] = {}
        for trial in study.get_trials(deepcopy=False):
            self._know(trial)
            self._stored_shapes.update(trial.distributions)

    def sampled(self, tried: Sequence[Overrides]) -> Candidate | None:
        """The sampler's next candidate; None when the space holds nothing untried."""
        seed = self._seed * 10_007 + self._next_number
        params = propose(self._recall.trials(), self._space, tried, seed)
        return None if params is None else Candidate(params=params, origin="sampler")

    def ask(self, candidate: Candidate) -> int:
        """Opens a trial for `candidate` and returns its number.

        One insert of a RUNNING trial with all its values: enqueue, ask and suggest would leave a
        waiting or half-filled trial to the next ask when a crash comes between them.
        """
        known = {parameter.key for parameter in self._space.active(candidate.params)}
        params = {key: to_choice(value) for key, value in candidate.params.items() if key in known}
        for key in params:
            if key in self._stored_shapes:
                check_distribution_compatibility(self._stored_shapes[key], self._shapes[key])
        trial = create_trial(
            state=TrialState.RUNNING,
            params=params,
            distributions={key: self._shapes[key] for key in params},
            user_attrs=_proposal(candidate),
        )
        trial._trial_id, trial.number = self._rows.asked(trial)
        self._know(trial)
        return trial.number

    def report(self, number: int, step: int, value: float) -> None:
        """One intermediate value, for the dashboard's curves; what a retry measures again is left out."""
        known = self._open[number]
        if step not in known.curve:
            self._rows.reported(known.trial._trial_id, step, value)
            known.curve[step] = value

    def tell(self, number: int, telling: Telling) -> None:
        """Ends the trial, in one transaction; what an interrupted `tell` has left is written over."""
        known = self._open[number]
        told = create_trial(
            state=_STATES[telling.state],
            value=_last(known.curve) if telling.state == "pruned" else telling.value,
            params=known.trial.params,
            distributions=known.trial.distributions,
            intermediate_values=known.curve,
            constraints=dict(telling.constraints),
        )
        told._trial_id, told.number = known.trial._trial_id, number
        self._rows.told(
            told._trial_id,
            told.state,
            told.value,
            system_attributes=told.system_attrs,
            user_attributes=telling.attributes,
            note=telling.note,
        )
        self._know(told)

    def running(self) -> list[int]:
        """Numbers of trials that were asked for and not told."""
        return [number for number, known in self._open.items() if known.trial.state == TrialState.RUNNING]

    def is_told(self, number: int) -> bool:
        """Whether the trial is over for Optuna."""
        return number < self._next_number and number not in self._open

    def _know(self, trial: FrozenTrial) -> None:
        self._next_number = max(self._next_number, trial.number + 1)
        if trial.state != TrialState.WAITING:  # enqueued in the dashboard: nobody's proposal
            self._recall.know(trial)
        if trial.state.is_finished():
            self._open.pop(trial.number, None)
        else:
            self._open[trial.number] = _OpenTrial(trial, dict(trial.intermediate_values))


def _last(curve: Mapping[int, float]) -> float | None:
    """The value of the latest step, which stands for a pruned trial's; None where that is no number."""
    value = curve[max(curve)] if curve else math.nan
    return None if math.isnan(value) else value


def _proposal(candidate: Candidate) -> dict[str, str]:
    """Who proposed the candidate, and for a curve's move what was seen and why it should help."""
    told = {"origin": candidate.origin, "diagnosis": candidate.diagnosis, "reason": candidate.reason}
    return {name: text for name, text in told.items() if text}
