"""The database of one job. The controller is its only writer; every call is one transaction.

Order of writes around everything that acts: the intent (`add_trial`, `start_attempt`), the effect
outside, the outcome (`end_attempt`, `end_trial`). So whatever moment the controller dies at,
`running_attempts` names all that may still live. A call that this order forbids is a mistake of the
caller and raises `ValueError`; a database that cannot be used raises `StoreError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import insert, select, update

from autotune.errors import Fault, StoreError
from autotune.forecast.rejection import Judgement
from autotune.records import (
    AttemptEnd,
    AttemptRole,
    AttemptState,
    Candidate,
    Event,
    FinishPlan,
    FinishVerdict,
    Overrides,
    StageName,
    StageResult,
    Value,
    Verdict,
)
from autotune.store import rows
from autotune.store.codec import to_text
from autotune.store.database import Database, sqlite_path
from autotune.store.identity import check, claim
from autotune.store.observations import Observed, read_observed, write_events
from autotune.store.reader import LIVE, StoreReader
from autotune.store.tables import (
    AttemptRow,
    FinishRow,
    ForecastRow,
    JobRow,
    StageResultRow,
    TrialRow,
    table_of,
)


class Store(StoreReader):
    """All that may be written; reading is `store/reader.py`."""

    def __init__(self, database: Database, job_name: str) -> None:
        super().__init__(database, job_name)
        self._observed: dict[str, Observed] = {}
        """By attempt, of those that live."""

    @classmethod
    def open(cls, url: str, *, job_name: str, job_hash: str, version: str) -> Store:
        """Opens the job's database for reading and writing; makes it where there is none.

        Raises:
            StoreError: unusable, of another or a changed job, or made by another autotune's schema.
        """
        path = sqlite_path(url)
        is_new = path is not None and not path.exists()
        if path is not None:
            _make_folder(path.parent)
        database = Database(url)
        try:
            claim(database, job_name=job_name, job_hash=job_hash, version=version)
        except BaseException:
            database.close()
            if path is not None and is_new:
                _remove(path)
            raise
        return cls(database, job_name)

    @staticmethod
    def check(url: str, *, job_name: str, job_hash: str) -> dict[StageName, StageResult]:
        """The stage results of the job's database if there is one already; for checks before a start.

        Raises:
            StoreError: as `open`. Nothing is written, and nothing is made.
        """
        path = sqlite_path(url)
        if path is not None and not path.exists():
            return {}
        database = Database(url, read_only=True)
        try:
            is_ours = check(database, job_name=job_name, job_hash=job_hash)
            return StoreReader(database, job_name).stage_results() if is_ours else {}
        finally:
            database.close()

    # Intent

    def add_trial(
        self,
        stage: StageName,
        number: int,
        candidate: Candidate,
        overrides: Overrides,
        at_utc: datetime,
    ) -> int:
        """Stores that a trial begins; returns its id.

        Raises:
            ValueError: the stage already has a trial of this number.
        """
        known = select(TrialRow.id).where(TrialRow.stage == stage.value, TrialRow.number == number)
        with self._database.writing_rows() as connection:
            if connection.scalar(known) is not None:
                raise ValueError(f"{stage.value} trial {number} is stored already")
            row = {
                "stage": stage.value,
                "number": number,
                "candidate": to_text(candidate),
                "overrides": to_text(overrides),
                "started_utc": at_utc,
            }
            added = connection.execute(insert(table_of(TrialRow)).values(row)).inserted_primary_key
        assert added is not None
        trial_id: int = added[0]
        return trial_id

    def add_forecast(self, trial_id: int, judgement: Judgement) -> None:
        """Stores what is expected of a trial before its launch; a trial judged again replaces it.

        Raises:
            ValueError: no such trial, or it has ended.
        """
        with self._database.writing() as session:
            if rows.trial_row(session, trial_id).ended_utc is not None:
                raise ValueError(f"a forecast of trial {trial_id} comes too late: it has ended")
            session.merge(
                ForecastRow(
                    trial_id=trial_id,
                    phase=judgement.phase,
                    probability_of_oom=judgement.probability_of_oom,
                    judgement=to_text(judgement),
                )
            )

    def start_attempt(
        self,
        trial_id: int,
        *,
        attempt_id: str,
        index: int,
        role: AttemptRole,
        folder: str,
        at_utc: datetime,
        devices: int = 1,
    ) -> None:
        """Stores that verl is about to be launched on so many devices.

        Raises:
            ValueError: no such trial, it has ended, or the attempt id is taken.
        """
        taken = select(AttemptRow.attempt_id).where(AttemptRow.attempt_id == attempt_id)
        with self._database.writing_rows() as connection:
            if rows.has_ended(connection, trial_id):
                raise ValueError(f"attempt {attempt_id} cannot start: trial {trial_id} has ended")
            if connection.scalar(taken) is not None:
                raise ValueError(f"attempt {attempt_id} is stored already")
            row = {
                "attempt_id": attempt_id,
                "trial_id": trial_id,
                "attempt_index": index,
                "role": role.value,
                "state": AttemptState.STARTING.value,
                "folder": folder,
                "devices": devices,
                "started_utc": at_utc,
                "last_seen_utc": at_utc,
            }
            connection.execute(insert(table_of(AttemptRow)).values(row))
        self._observed[attempt_id] = Observed(last_seen_utc=at_utc)

    def plan_finish(self, plan: FinishPlan, at_utc: datetime) -> None:
        """Stores what is settled before the finish's first run.

        Raises:
            ValueError: it is settled already.
        """
        with self._database.writing() as session:
            if self._finish(session) is not None:
                raise ValueError("the finish is planned already")
            session.add(FinishRow(id=1, plan=to_text(plan), planned_utc=at_utc))

    def attempt_is_running(self, attempt_id: str, at_utc: datetime) -> None:
        """Stores that verl's process was seen.

        Raises:
            ValueError: no such attempt, or it is past its start.
        """
        with self._database.writing_rows() as connection:
            changed = connection.execute(
                update(table_of(AttemptRow))
                .where(AttemptRow.attempt_id == attempt_id, AttemptRow.state == AttemptState.STARTING.value)
                .values(state=AttemptState.RUNNING.value, last_seen_utc=at_utc)
            ).rowcount
            if not changed:
                state = rows.state_of(connection, attempt_id)
                raise ValueError(f"attempt {attempt_id} cannot begin to run: it is {state}")

    # What is reported while it runs

    def add_events(self, attempt_id: str, events: Sequence[Event], at_utc: datetime) -> None:
        """Stores what arrived and that the attempt was alive; the same event twice is stored once.

        Events that arrive after the end are stored as well, and do not move `last_seen_utc`.

        Raises:
            ValueError: no such attempt.
        """
        observed = self._observed.pop(attempt_id, None)  # put back once it is what the database has
        with self._database.writing_rows() as connection:
            observed = observed or read_observed(connection, attempt_id)
            observed.last_seen_utc = max(observed.last_seen_utc, at_utc)
            is_alive = connection.execute(
                update(table_of(AttemptRow))
                .where(AttemptRow.attempt_id == attempt_id, AttemptRow.ended_utc.is_(None))
                .values(last_seen_utc=observed.last_seen_utc)
            ).rowcount
            write_events(connection, attempt_id, events, observed)
        if is_alive:
            self._observed[attempt_id] = observed

    # Outcome

    def end_attempt(
        self, attempt_id: str, *, end: AttemptEnd, verdict: Verdict, device_s: float, at_utc: datetime
    ) -> None:
        """Stores how an attempt ended, what was made of it, and the device seconds it cost.

        Raises:
            ValueError: no such attempt, or it has ended.
        """
        self._observed.pop(attempt_id, None)
        with self._database.writing_rows() as connection:
            changed = connection.execute(
                update(table_of(AttemptRow))
                .where(AttemptRow.attempt_id == attempt_id, AttemptRow.state.in_(LIVE))
                .values(
                    state=(AttemptState.LOST if end.lost else AttemptState.ENDED).value,
                    ended_utc=at_utc,
                    device_s=device_s,
                    ending=to_text(end),
                    verdict=to_text(verdict),
                )
            ).rowcount
            if not changed:
                state = rows.state_of(connection, attempt_id)
                raise ValueError(f"attempt {attempt_id} cannot end: it is {state}")

    def end_trial(
        self,
        trial_id: int,
        *,
        verdict: Verdict,
        objective: float | None,
        accepted: bool,
        pruned: bool,
        at_utc: datetime,
    ) -> None:
        """Stores what became of a trial.

        Raises:
            ValueError: no such trial, it has ended, an attempt of it still lives, or a NaN objective.
        """
        if objective is not None and math.isnan(objective):
            raise ValueError(f"trial {trial_id}: objective must be a number or None, but got nan")
        alive = select(AttemptRow.attempt_id).where(
            AttemptRow.trial_id == trial_id, AttemptRow.state.in_(LIVE)
        )
        with self._database.writing_rows() as connection:
            attempt_id = connection.scalar(alive)
            if attempt_id is not None:
                raise ValueError(f"trial {trial_id} cannot end: attempt {attempt_id} is not ended")
            changed = connection.execute(
                update(table_of(TrialRow))
                .where(TrialRow.id == trial_id, TrialRow.ended_utc.is_(None))
                .values(
                    ended_utc=at_utc,
                    outcome=verdict.outcome.value,
                    kind=verdict.failure.kind if verdict.failure else None,
                    objective=objective,
                    accepted=accepted,
                    pruned=pruned,
                    verdict=to_text(verdict),
                )
            ).rowcount
            if not changed:
                rows.has_ended(connection, trial_id)
                raise ValueError(f"trial {trial_id} cannot end: it has ended before")

    def end_stage(self, result: StageResult, at_utc: datetime) -> None:
        """Stores a stage's result; a stage that goes on after a resumption replaces it."""
        with self._database.writing() as session:
            session.merge(
                StageResultRow(
                    stage=result.stage.value,
                    ended_utc=at_utc,
                    acceptance_met=result.acceptance_met,
                    result=to_text(result),
                )
            )

    def end_finish(self, verdict: FinishVerdict, at_utc: datetime) -> None:
        """Stores the verdict on the winner.

        Raises:
            ValueError: the finish was not planned, or has its verdict.
        """
        with self._database.writing() as session:
            row = self._finish(session)
            if row is None or row.verdict is not None:
                raise ValueError("the finish was not planned, or has its verdict already")
            row.ended_utc = at_utc
            row.outcome = verdict.outcome.value
            row.verdict = to_text(verdict)

    def add_wall_s(self, seconds: float) -> None:
        """Adds to the time that controllers worked on this job."""
        with self._database.writing() as session:
            session.execute(update(JobRow).values(wall_s=JobRow.wall_s + seconds))

    def set_provenance(self, provenance: Mapping[str, Value]) -> None:
        """Stores versions, hardware and the like; replaces what was stored."""
        with self._database.writing() as session:
            session.execute(update(JobRow).values(provenance=to_text(provenance)))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            Fault(
                where=str(folder),
                key="storage.results",
                found=f"a folder that cannot be made ({error.strerror})",
                next_step="make it writable, or name another storage.results",
            )
        ) from error


def _remove(database: Path) -> None:
    """Takes back a database that could not be made whole."""
    for name in (database.name, f"{database.name}-wal", f"{database.name}-shm", f"{database.name}-journal"):
        database.with_name(name).unlink(missing_ok=True)
