"""Optuna's rows of one trial, each moment of it in one transaction: asked, reported, told.

Optuna's own calls read the trial anew and commit for each value and attribute, and save a note after
reading those of all trials: two dozen transactions a trial, and the more the longer the study. The rows
are the same; Optuna reads them, and the dashboard shows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard._note import note_str_key_prefix, note_ver_key, split_body
from sqlalchemy import Connection, Table, func, insert, select, update

_STUDIES: Table = models.StudyModel.__table__
_TRIALS: Table = models.TrialModel.__table__
_PARAMS: Table = models.TrialParamModel.__table__
_VALUES: Table = models.TrialValueModel.__table__
_CURVE: Table = models.TrialIntermediateValueModel.__table__
_USER_ATTRIBUTES: Table = models.TrialUserAttributeModel.__table__
_SYSTEM_ATTRIBUTES: Table = models.TrialSystemAttributeModel.__table__
_STUDY_ATTRIBUTES: Table = models.StudySystemAttributeModel.__table__
_PAST_PREFIX = "\U0010ffff"
"""Sorts behind every text that continues a prefix."""


class TrialRows:
    """The trials of one study; the only caller is `search/study.py`, and nothing else writes them."""

    def __init__(self, storage: RDBStorage, study_id: int) -> None:
        self._engine = storage.engine
        self._study_id = study_id

    def asked(self, trial: FrozenTrial) -> tuple[int, int]:
        """Inserts a trial with all that is known of it; returns its id and its number."""
        of_study = _TRIALS.c.study_id == self._study_id
        latest = select(_TRIALS.c.number).where(of_study).order_by(_TRIALS.c.trial_id.desc()).limit(1)
        row = {
            "study_id": self._study_id,
            "number": func.coalesce(latest.scalar_subquery(), -1) + 1,
            "state": trial.state,
            "datetime_start": _now(),
        }
        with self._engine.begin() as connection:
            if connection.dialect.name != "sqlite":  # there an insert locks out whoever else counts
                study = select(_STUDIES.c.study_id).where(_STUDIES.c.study_id == self._study_id)
                connection.execute(study.with_for_update())
            added = connection.execute(insert(_TRIALS).values(row)).inserted_primary_key
            assert added is not None
            trial_id: int = added[0]
            number = connection.scalar(select(_TRIALS.c.number).where(_TRIALS.c.trial_id == trial_id))
            assert number is not None
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
                connection.execute(insert(_PARAMS), params)
            _put(connection, _USER_ATTRIBUTES, {"trial_id": trial_id}, {}, trial.user_attrs)
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
            connection.execute(insert(_CURVE), [row])

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
        this = _TRIALS.c.trial_id == trial_id
        is_running = this & (_TRIALS.c.state == TrialState.RUNNING)
        end = update(_TRIALS).where(is_running).values(state=state, datetime_complete=_now())
        with self._engine.begin() as connection:
            if not connection.execute(end).rowcount:
                found = connection.scalar(select(_TRIALS.c.state).where(this))
                state_now = "unknown" if found is None else found.name
                raise ValueError(f"the trial of id {trial_id} cannot be told: it is {state_now}")
            owner = {"trial_id": trial_id}
            for table, attributes in (
                (_SYSTEM_ATTRIBUTES, system_attributes),
                (_USER_ATTRIBUTES, user_attributes),
            ):
                if attributes:
                    _put(connection, table, owner, _stored(connection, table, owner), attributes)
            if note:
                self._put_note(connection, trial_id, note)
            if value is not None:
                stored, kind = models.TrialValueModel.value_to_stored_repr(value)
                row = {"trial_id": trial_id, "objective": 0, "value": stored, "value_type": kind}
                connection.execute(insert(_VALUES), [row])

    def _put_note(self, connection: Connection, trial_id: int, note: str) -> None:
        """Writes a note as optuna-dashboard's `save_note` does, which would read those of all trials."""
        owner = {"study_id": self._study_id}
        version_key, prefix = note_ver_key(trial_id), note_str_key_prefix(trial_id)
        key = _STUDY_ATTRIBUTES.c.key
        of_note = (key == version_key) | key.between(prefix, prefix + _PAST_PREFIX)
        stored = _stored(connection, _STUDY_ATTRIBUTES, owner, of_note)
        parts = split_body(note, trial_id)
        version = json.loads(stored.get(version_key, "0")) + 1
        longer = {key: "" for key in stored if key != version_key and key not in parts}
        _put(connection, _STUDY_ATTRIBUTES, owner, stored, {version_key: version, **parts, **longer})


def _now() -> datetime:
    """As Optuna stores times: UTC, without a time zone."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def _stored(
    connection: Connection, table: Table, owner: Mapping[str, int], *conditions: Any
) -> dict[str, str]:
    """Stored attributes by key, as JSON."""
    chosen = select(table.c.key, table.c.value_json).filter_by(**owner).where(*conditions)
    return {key: text for key, text in connection.execute(chosen)}


def _put(
    connection: Connection,
    table: Table,
    owner: Mapping[str, int],
    stored: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    """Adds what is not stored yet, and replaces what is and differs."""
    texts = {key: json.dumps(value) for key, value in attributes.items()}
    added = [{**owner, "key": key, "value_json": text} for key, text in texts.items() if key not in stored]
    if added:
        connection.execute(insert(table), added)
    for key, text in texts.items():
        if key in stored and stored[key] != text:
            connection.execute(update(table).filter_by(**owner, key=key).values(value_json=text))
