"""One stage's Optuna study: ask, report, tell. The only file that writes Optuna's tables.

Only the controller's thread may use it; trials never open the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from optuna_dashboard import save_note
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from autotune.errors import Fault, StoreError
from autotune.job.space_resolution import ResolvedSpace
from autotune.records import Candidate, Overrides, StageName
from autotune.search.distributions import distribution, to_choice
from autotune.search.proposals import propose
from autotune.search.telling import Telling

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


class StageStudy:
    """Asks for candidates and tells what became of them.

    asked (RUNNING) -> reported per step -> told (COMPLETE | PRUNED | FAIL), once.
    """

    def __init__(
        self, storage: RDBStorage, *, job_name: str, stage: StageName, space: ResolvedSpace, seed: int
    ) -> None:
        self._space = space
        self._seed = seed
        self._study = optuna.create_study(
            storage=storage,
            study_name=study_name(job_name, stage),
            direction="maximize",
            load_if_exists=True,
            # Proposals come from `propose`; the study's own sampler is never asked.
            sampler=optuna.samplers.RandomSampler(seed=seed),
        )
        self._storage = self._study._storage
        self._reported: dict[int, set[int]] = {}
        """Steps by trial number, of the trials that this process knows: to read a trial is dear."""

    def sampled(self, tried: Sequence[Overrides]) -> Candidate | None:
        """The sampler's next candidate; None when the space holds nothing untried."""
        history = self._study.get_trials(deepcopy=False)
        params = propose(history, self._space, tried, self._seed * 10_007 + len(history))
        return None if params is None else Candidate(params=params, origin="sampler")

    def ask(self, candidate: Candidate) -> int:
        """Opens a trial for `candidate` and returns its number.

        One insert of a RUNNING trial with all its values: enqueue, ask and suggest would leave a
        waiting or half-filled trial to the next ask when a crash comes between them.
        """
        known = {parameter.key: parameter for parameter in self._space.active(candidate.params)}
        params = {key: to_choice(value) for key, value in candidate.params.items() if key in known}
        trial = create_trial(
            state=TrialState.RUNNING,
            params=params,
            distributions={key: distribution(known[key]) for key in params},
            user_attrs=_proposal(candidate),
        )
        # What Study.add_trial does, but for the number, which it keeps to itself.
        trial_id = self._storage.create_new_trial(self._study._study_id, template_trial=trial)
        number = self._storage.get_trial_number_from_id(trial_id)
        self._reported[number] = set()
        return number

    def report(self, number: int, step: int, value: float) -> None:
        """One intermediate value, for the dashboard's curves; what a retry measures again is left out."""
        if number not in self._reported:
            self._reported[number] = set(self._frozen(number).intermediate_values)
        if step not in self._reported[number]:
            self._storage.set_trial_intermediate_value(self._trial_id(number), step, value)
            self._reported[number].add(step)

    def tell(self, number: int, telling: Telling) -> None:
        """Ends the trial; constraints and attributes are written before the state.

        What an interrupted `tell` has already written stays; constraints are written once only.
        """
        trial = self._open_trial(number)
        written = trial._cached_frozen_trial
        for name, violation in telling.constraints.items():
            if name not in written.constraints:
                trial.set_constraint(name, violation)
        for name, value in telling.attributes.items():
            if name not in written.user_attrs or written.user_attrs[name] != value:
                self._storage.set_trial_user_attr(written._trial_id, name, value)
        if telling.note:
            save_note(trial, telling.note)
        self._study.tell(number, telling.value, state=_STATES[telling.state])
        self._reported.pop(number, None)

    def running(self) -> list[int]:
        """Numbers of trials that were asked for and not told."""
        return [
            trial.number for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        ]

    def is_told(self, number: int) -> bool:
        """Whether the trial is over for Optuna."""
        return self._frozen(number).state.is_finished()

    def _frozen(self, number: int) -> FrozenTrial:
        """One trial by its number: the whole study would be read anew, however long it is."""
        return self._storage.get_trial(self._trial_id(number))

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number)

    def _open_trial(self, number: int) -> Trial:
        return Trial(self._study, self._trial_id(number))


def _proposal(candidate: Candidate) -> dict[str, str]:
    """Who proposed the candidate, and for a curve's move what was seen and why it should help."""
    told = {"origin": candidate.origin, "diagnosis": candidate.diagnosis, "reason": candidate.reason}
    return {name: text for name, text in told.items() if text}
