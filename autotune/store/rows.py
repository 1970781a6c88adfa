"""Rows of the database as frozen values."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.orm import Session

from autotune.judge.ledger import Cost, Start
from autotune.records import AttemptRole, AttemptState, StageName
from autotune.store.codec import candidate_from_text, end_from_text, from_text, verdict_from_text
from autotune.store.stored import StoredAttempt, StoredTrial
from autotune.store.tables import AttemptRow, TrialRow


def trial_row(session: Session, trial_id: int) -> TrialRow:
    """The live row; ValueError where there is none."""
    row = session.get(TrialRow, trial_id)
    if row is None:
        raise ValueError(f"no trial has the id {trial_id}")
    return row


def attempt_row(session: Session, attempt_id: str) -> AttemptRow:
    """The live row; ValueError where there is none."""
    row = session.get(AttemptRow, attempt_id)
    if row is None:
        raise ValueError(f"no attempt has the id {attempt_id}")
    return row


def has_ended(connection: Connection, trial_id: int) -> bool:
    """Whether the trial has; ValueError where there is none."""
    found = connection.execute(select(TrialRow.ended_utc).where(TrialRow.id == trial_id)).one_or_none()
    if found is None:
        raise ValueError(f"no trial has the id {trial_id}")
    return found[0] is not None


def state_of(connection: Connection, attempt_id: str) -> str:
    """The attempt's state; ValueError where there is none."""
    state = connection.scalar(select(AttemptRow.state).where(AttemptRow.attempt_id == attempt_id))
    if state is None:
        raise ValueError(f"no attempt has the id {attempt_id}")
    return state


def find_trial(session: Session, stage: StageName, number: int) -> TrialRow | None:
    """The live row of a stage's trial, if there is one."""
    return session.scalars(
        select(TrialRow).where(TrialRow.stage == stage.value).where(TrialRow.number == number)
    ).one_or_none()


def trials(session: Session, stage: StageName | None) -> list[StoredTrial]:
    """Trials of one stage or of all, in the order of their start."""
    query = select(TrialRow).order_by(TrialRow.id)
    if stage is not None:
        query = query.where(TrialRow.stage == stage.value)
    return [stored_trial(row) for row in session.scalars(query)]


def attempts(session: Session, condition: ColumnElement[bool]) -> list[StoredAttempt]:
    """The attempts that `condition` picks, in the order of their start."""
    query = (
        select(AttemptRow)
        .where(condition)
        .order_by(AttemptRow.trial_id, AttemptRow.started_utc, AttemptRow.attempt_index)
    )
    return [stored_attempt(row) for row in session.scalars(query)]


def device_s_by_trial(session: Session, stage: StageName | None) -> dict[int, float]:
    """Device seconds by trial id; a running attempt counts until it was last seen."""
    query = select(
        AttemptRow.trial_id,
        AttemptRow.ended_utc,
        AttemptRow.device_s,
        AttemptRow.devices,
        AttemptRow.started_utc,
        AttemptRow.last_seen_utc,
    )
    if stage is not None:
        query = query.join(TrialRow, TrialRow.id == AttemptRow.trial_id).where(TrialRow.stage == stage.value)
    spent_s: dict[int, float] = {}
    for row in session.execute(query):
        device_s = row.device_s
        if row.ended_utc is None:
            device_s = row.devices * (row.last_seen_utc - row.started_utc).total_seconds()
        spent_s[row.trial_id] = spent_s.get(row.trial_id, 0.0) + device_s
    return spent_s


def costs(session: Session) -> list[Cost]:
    """Every trial as the ledger needs it."""
    spent_s = device_s_by_trial(session, None)
    most = select(AttemptRow.trial_id, func.max(AttemptRow.devices)).group_by(AttemptRow.trial_id)
    devices = {row[0]: row[1] for row in session.execute(most)}
    found = session.execute(select(TrialRow.id, TrialRow.stage, TrialRow.verdict).order_by(TrialRow.id))
    return [
        Cost(
            stage=StageName(stage),
            verdict=None if verdict is None else verdict_from_text(verdict),
            gpu_s=spent_s.get(trial_id, 0.0),
            devices=devices.get(trial_id, 1),
        )
        for trial_id, stage, verdict in found
    ]


def starts(session: Session) -> list[Start]:
    """Every attempt that came to its first step, as the ledger needs it."""
    found = session.execute(
        select(AttemptRow.ending, AttemptRow.verdict, AttemptRow.devices).where(
            AttemptRow.ended_utc.is_not(None)
        )
    )
    made = []
    for ending, verdict, devices in found:
        start_s = None if verdict is None else verdict_from_text(verdict).figures.start_s
        if start_s is not None:
            is_warm = ending is not None and end_from_text(ending).session_number > 0
            made.append(Start(start_s=start_s, is_warm=is_warm, devices=devices))
    return made


def stored_trial(row: TrialRow) -> StoredTrial:
    """A frozen copy."""
    return StoredTrial(
        id=row.id,
        stage=StageName(row.stage),
        number=row.number,
        candidate=candidate_from_text(row.candidate),
        overrides=from_text(row.overrides),
        started_utc=row.started_utc,
        ended_utc=row.ended_utc,
        verdict=None if row.verdict is None else verdict_from_text(row.verdict),
        objective=row.objective,
        accepted=row.accepted,
        pruned=row.pruned,
    )


def stored_attempt(row: AttemptRow) -> StoredAttempt:
    """A frozen copy."""
    return StoredAttempt(
        attempt_id=row.attempt_id,
        trial_id=row.trial_id,
        index=row.attempt_index,
        role=AttemptRole(row.role),
        state=AttemptState(row.state),
        folder=row.folder,
        started_utc=row.started_utc,
        last_seen_utc=row.last_seen_utc,
        ended_utc=row.ended_utc,
        devices=row.devices,
        device_s=row.device_s,
        end=None if row.ending is None else end_from_text(row.ending),
        verdict=None if row.verdict is None else verdict_from_text(row.verdict),
    )
