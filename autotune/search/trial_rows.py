"""Optuna's rows of one trial, each moment of it in one transaction: asked, reported, told.

Optuna's own calls read the trial anew and commit for each value and attribute, and save a note after
reading those of all trials: two dozen transactions a trial, and the more the longer the study. The rows
are the same; Optuna reads them, and the dashboard shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard._note import note_str_key_prefix, note_ver_key, split_body
from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.orm import Session

_PAST_PREFIX = "\U0010ffff"
"""Sorts behind every text that continues a prefix."""


class TrialRows:
    """The trials of one study; the only caller is `search/study.py`, and nothing else writes them."""

    def __init__(self, storage: RDBStorage, study_id: int) -> None:
        self._engine = storage.engine
        self._study_id = study_id

    def asked(self, trial: FrozenTrial) -> tuple[int, int]:
        """Inserts a trial with all that is known of it; returns its id and its number."""
        with self._transaction() as session:
            # Nobody else may count trials meanwhile; SQLite needs no lock beside the insert's.
            study = select(models.StudyModel.study_id).where(models.StudyModel.study_id == self._study_id)
            session.execute(study.with_for_update())
            row = models.TrialModel(study_id=self._study_id, state=trial.state, datetime_start=datetime.now())
            session.add(row)
            session.flush()
            before = (
                select(models.TrialModel.number)
                .where(models.TrialModel.study_id == self._study_id)
                .where(models.TrialModel.trial_id < row.trial_id)
                .order_by(models.TrialModel.trial_id.desc())
            )
            last = session.scalars(before.limit(1)).first()
            row.number = number = 0 if last is None else last + 1
            trial_id = row.trial_id
            params = [
                {
                    "trial_id": trial_id,
                    "param_name": name,
                    "param_value": shape.to_internal_repr(trial.params[name]),
                    "distribution_json": distribution_to_json(shape),
                }
                for name, shape in trial.distributions.items()
            ]
            if params:
                session.execute(insert(models.TrialParamModel), params)
            _put_attributes(session, models.TrialUserAttributeModel, trial_id, trial.user_attrs)
        return trial_id, number

    def reported(self, trial_id: int, step: int, value: float) -> None:
        """Inserts the value of a step that has none yet."""
        stored, kind = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
        row = {
            "trial_id": trial_id,
            "step": step,
            "intermediate_value": stored,
            "intermediate_value_type": kind,
        }
        with self._engine.begin() as connection:
            connection.execute(insert(models.TrialIntermediateValueModel.__table__).values(row))

    def told(
        self,
        trial_id: int,
        state: TrialState,
        value: float | None,
        *,
        system_attributes: Mapping[str, Any],
        user_attributes: Mapping[str, Any],
        note: str,
    ) -> None:
        """Ends a running trial. What an interrupted `tell` left is replaced.

        Raises:
            ValueError: The trial is not running.
        """
        with self._transaction() as session:
            row = session.get_one(models.TrialModel, trial_id)
            if row.state is not TrialState.RUNNING:
                raise ValueError(f"trial {row.number} cannot be told: it is {row.state.name}")
            _put_attributes(session, models.TrialSystemAttributeModel, trial_id, system_attributes)
            _put_attributes(session, models.TrialUserAttributeModel, trial_id, user_attributes)
            if note:
                self._put_note(session, trial_id, note)
            if value is not None:
                stored, kind = models.TrialValueModel.value_to_stored_repr(value)
                values = {"trial_id": trial_id, "objective": 0, "value": stored, "value_type": kind}
                session.execute(insert(models.TrialValueModel), [values])
            row.state, row.datetime_complete = state, datetime.now()

    def _put_note(self, session: Session, trial_id: int, note: str) -> None:
        """Writes a note as optuna-dashboard's `save_note` does, which would read those of all trials."""
        table = models.StudySystemAttributeModel
        version_key, prefix = note_ver_key(trial_id), note_str_key_prefix(trial_id)
        of_study = table.study_id == self._study_id
        is_of_note = (table.key == version_key) | table.key.between(prefix, prefix + _PAST_PREFIX)
        stored = _attributes(session, table, of_study & is_of_note)
        parts = split_body(note, trial_id)
        version = json.loads(stored.get(version_key, "0")) + 1
        longer = {key: "" for key in stored if key != version_key and key not in parts}
        _put(
            session,
            table,
            {"study_id": self._study_id},
            stored,
            {version_key: version, **parts, **longer},
        )

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with Session(self._engine) as session, session.begin():
            yield session


def _put_attributes(session: Session, table: Any, trial_id: int, attributes: Mapping[str, Any]) -> None:
    """Adds or replaces attributes of a trial."""
    if attributes:
        stored = _attributes(session, table, table.trial_id == trial_id)
        _put(session, table, {"trial_id": trial_id}, stored, attributes)


def _attributes(session: Session, table: Any, condition: ColumnElement[bool]) -> dict[str, str]:
    """Stored attributes by key, as JSON."""
    found = session.execute(select(table.key, table.value_json).where(condition))
    return {key: text for key, text in found}


def _put(
    session: Session,
    table: Any,
    owner: Mapping[str, int],
    stored: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    texts = {key: json.dumps(value) for key, value in attributes.items()}
    added = [{**owner, "key": key, "value_json": text} for key, text in texts.items() if key not in stored]
    if added:
        session.execute(insert(table), added)
    for key, text in texts.items():
        if key in stored and stored[key] != text:
            change = update(table).filter_by(**owner, key=key).values(value_json=text)
            session.execute(change.execution_options(synchronize_session=False))
