"""Which parameters a stage's objective depended on most, by Optuna's PED-ANOVA. Reads, never writes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import create_engine, inspect, make_url

from autotune.records import StageName
from autotune.search.study import study_name

LEAST_TRIALS = 10
"""Completed trials below which an importance would be an accident of the few points."""


@dataclass(frozen=True, kw_only=True)
class Importances:
    """Shares by key, largest first; or why there are none."""

    stage: StageName
    trials: int
    """Completed trials that it rests on."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """By verl's key; they add up to 1."""
    missing_reason: str = ""


def importances(url: str, job_name: str, stage: StageName) -> Importances:
    """Importance of each parameter for the objective of the stage's completed trials."""
    with _reading_storage(url) as storage:
        name = study_name(job_name, stage)
        if storage is None or name not in optuna.get_all_study_names(storage):
            return Importances(stage=stage, trials=0, missing_reason=_too_little(()))
        study = optuna.load_study(study_name=name, storage=storage)
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        missing_reason = _too_little(complete)
        if missing_reason:
            return Importances(stage=stage, trials=len(complete), missing_reason=missing_reason)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the evaluator is new is nothing for a report's reader
            shares = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return Importances(stage=stage, trials=len(complete), shares=dict(shares))


def _too_little(complete: Sequence[FrozenTrial]) -> str:
    """Why nothing can be said; empty where it can."""
    if len(complete) < LEAST_TRIALS:
        return f"{len(complete)} completed, {LEAST_TRIALS} wanted"
    if len({trial.value for trial in complete}) < 2:
        return "all completed trials have the same objective"
    return ""


@contextmanager
def _reading_storage(url: str) -> Iterator[RDBStorage | None]:
    """Optuna's storage that makes no tables and, for SQLite, cannot write; None before there are tables."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = quote(str(Path(parsed.database or "").absolute()))
        url = f"sqlite:///file:{path}?mode=ro&uri=true"
    engine = create_engine(url)
    try:
        has_tables = inspect(engine).has_table("version_info")
    finally:
        engine.dispose()
    if not has_tables:
        yield None
        return
    storage = RDBStorage(url, skip_table_creation=True)
    try:
        yield storage
    finally:
        storage.engine.dispose()
