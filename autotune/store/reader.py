"""Reading the database of one job, also while a controller writes it."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session

from autotune.errors import Fault, StoreError
from autotune.forecast.rejection import Judgement
from autotune.judge.ledger import Ledger, ledger
from autotune.records import (
    AttemptState,
    Event,
    FinishPlan,
    FinishVerdict,
    MetricRow,
    StageName,
    StageResult,
    Value,
)
from autotune.store import rows
from autotune.store.codec import (
    end_from_text,
    finish_plan_from_text,
    finish_verdict_from_text,
    from_text,
    judgement_from_text,
    stage_result_from_text,
)
from autotune.store.database import Database, sqlite_path
from autotune.store.identity import stored_job_name
from autotune.store.observations import read_events, read_metric_rows
from autotune.store.stored import StoredAttempt, StoredTrial
from autotune.store.tables import AttemptRow, FinishRow, ForecastRow, JobRow, StageResultRow

LIVE = (AttemptState.STARTING.value, AttemptState.RUNNING.value)
"""States of an attempt whose processes may still be there."""

Reader = TypeVar("Reader", bound="StoreReader")


class StoreReader:
    """Trials, attempts, what they reported and what was made of it, as frozen values."""

    def __init__(self, database: Database, job_name: str) -> None:
        self.url = database.url
        self.job_name = job_name
        self._database = database

    @classmethod
    def read(cls: type[Reader], url: str) -> Reader:
        """Opens an existing database for reading alone; a controller may be writing meanwhile.

        Raises:
            StoreError: missing, unusable, or not a database of this autotune.
        """
        path = sqlite_path(url)
        if path is not None and not path.is_file():
            raise StoreError(
                Fault(
                    where=str(path),
                    key="storage",
                    found="no database",
                    next_step="start the job with `autotune run`, or name its results folder",
                )
            )
        database = Database(url, read_only=True)
        try:
            return cls(database, stored_job_name(database))
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Gives the connections back; the store cannot be used afterwards."""
        self._database.close()

    def __enter__(self: Reader) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def trials(self, stage: StageName | None = None) -> list[StoredTrial]:
        """Trials of one stage or of all, in the order of their start."""
        with self._database.reading() as session:
            return rows.trials(session, stage)

    def trial(self, stage: StageName, number: int) -> StoredTrial | None:
        """One trial; None where the stage has none of this number."""
        with self._database.reading() as session:
            row = rows.find_trial(session, stage, number)
            return None if row is None else rows.stored_trial(row)

    def attempts(self, trial_id: int) -> list[StoredAttempt]:
        """The trial's attempts in the order of their start."""
        with self._database.reading() as session:
            return rows.attempts(session, AttemptRow.trial_id == trial_id)

    def forecast(self, trial_id: int) -> Judgement | None:
        """What was expected of the trial's memory at its launch; None where no forecast could be made."""
        with self._database.reading() as session:
            row = session.get(ForecastRow, trial_id)
            return None if row is None else judgement_from_text(row.judgement)

    def running_attempts(self) -> list[StoredAttempt]:
        """All attempts whose end is not stored: what may still live after a crash."""
        with self._database.reading() as session:
            return rows.attempts(session, AttemptRow.state.in_(LIVE))

    def events(self, attempt_id: str) -> list[Event]:
        """Everything the attempt reported, by `at_s`, its end last; memory curves thinned, peaks exact."""
        with self._database.reading() as session:
            events = read_events(session, attempt_id)
            attempt = rows.stored_attempt(rows.attempt_row(session, attempt_id))
            return events if attempt.end is None else [*events, attempt.end]

    def metric_rows(self, attempt_id: str) -> list[MetricRow]:
        """The attempt's metric rows by step."""
        with self._database.reading() as session:
            return read_metric_rows(session, attempt_id)

    def device_s(self, stage: StageName | None = None) -> float:
        """Device seconds of all attempts; a running one counts until it was last seen."""
        with self._database.reading() as session:
            return sum(rows.device_s_by_trial(session, stage).values())

    def device_s_by_trial(self) -> dict[int, float]:
        """Device seconds by trial id, counted like `device_s`; a trial never launched is left out."""
        with self._database.reading() as session:
            return rows.device_s_by_trial(session, None)

    def session_by_trial(self) -> dict[int, str]:
        """Id of the warm session that ran the trial last, by trial id; a process of its own is left out."""
        with self._database.reading() as session:
            found = session.execute(
                select(AttemptRow.trial_id, AttemptRow.ending)
                .where(AttemptRow.ending.is_not(None))
                .order_by(AttemptRow.attempt_index)
            )
            ids = {trial_id: end_from_text(ending).session for trial_id, ending in found if ending}
        return {trial_id: name for trial_id, name in ids.items() if name}

    def ledger(self) -> Ledger:
        """Device time by stage and outcome, and what was not spent."""
        with self._database.reading() as session:
            return ledger(rows.costs(session), rows.starts(session))

    def wall_s(self) -> float:
        """Seconds that controllers worked on this job, over all resumptions."""
        with self._database.reading() as session:
            return self._job(session).wall_s

    def provenance(self) -> dict[str, Value]:
        """What `set_provenance` stored; empty before."""
        with self._database.reading() as session:
            stored: dict[str, Value] = from_text(self._job(session).provenance)
            return stored

    def stage_results(self) -> dict[StageName, StageResult]:
        """The results of the stages that ended, in climbing order."""
        with self._database.reading() as session:
            texts = session.scalars(select(StageResultRow.result))
            results = {result.stage: result for result in map(stage_result_from_text, texts)}
        return {stage: results[stage] for stage in StageName if stage in results}

    def finish_plan(self) -> FinishPlan | None:
        """What was settled before the finish began; None before."""
        with self._database.reading() as session:
            row = self._finish(session)
            return None if row is None else finish_plan_from_text(row.plan)

    def finish_verdict(self) -> FinishVerdict | None:
        """The finish's word on the winner; None before it has ended."""
        with self._database.reading() as session:
            row = self._finish(session)
            return None if row is None or row.verdict is None else finish_verdict_from_text(row.verdict)

    @staticmethod
    def _finish(session: Session) -> FinishRow | None:
        """The live row; a database that was made before there was a finish has no table of it."""
        if not inspect(session.connection()).has_table(FinishRow.__tablename__):
            return None
        return session.scalars(select(FinishRow)).one_or_none()

    @staticmethod
    def _job(session: Session) -> JobRow:
        return session.scalars(select(JobRow)).one()
