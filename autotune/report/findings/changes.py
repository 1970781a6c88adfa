"""The exported configuration against the user's own: every key that tuning changed, and which stage did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.job.model import Job
from autotune.records import StageName, StageResult, Value
from autotune.report.findings.stages import ClimbedStage


@dataclass(frozen=True, kw_only=True)
class ConfigChange:
    """One key that differs."""

    key: str
    own: Value
    own_is_known: bool
    """False where the job does not set the key and no trial of the user's configuration names it."""
    exported: Value
    stage: StageName
    """The stage that gave the key its exported value."""


@dataclass(frozen=True, kw_only=True)
class ChangesFinding:
    """What the export changes."""

    stage: StageName
    trial: int
    """The exported trial."""
    changes: tuple[ConfigChange, ...]
    unchanged: tuple[str, ...]
    """Keys that were searched and kept their values."""


def changes_finding(
    stages: Sequence[ClimbedStage], results: Sequence[StageResult], job: Job
) -> ChangesFinding | None:
    """The difference that the last stage with a best trial hands on; None while there is none."""
    chosen = [result for result in results if result.best is not None]
    if not chosen:
        return None
    own = _own_values(stages, job)
    last = chosen[-1]
    changes, unchanged = [], []
    for key, value in last.overrides.items():
        plain = key.lstrip("+")
        if plain in own and own[plain] == value and isinstance(own[plain], bool) == isinstance(value, bool):
            unchanged.append(plain)
            continue
        changes.append(
            ConfigChange(
                key=plain,
                own=own.get(plain),
                own_is_known=plain in own,
                exported=value,
                stage=_set_by(key, value, chosen),
            )
        )
    assert last.best is not None
    return ChangesFinding(
        stage=last.stage, trial=last.best, changes=tuple(changes), unchanged=tuple(unchanged)
    )


def _own_values(stages: Sequence[ClimbedStage], job: Job) -> dict[str, Value]:
    """The job's own values, and verl's defaults as far as a stage started from them.

    A stage starts from what the one before handed on, so an earlier stage's word counts first.
    """
    own: dict[str, Value] = {}
    for climbed in reversed(stages):
        own.update(climbed.start.candidate.params if climbed.start else {})
    own.update({key.lstrip("+"): value for key, value in job.verl.overrides.items()})
    return own


def _set_by(key: str, value: Value, results: Sequence[StageResult]) -> StageName:
    found = results[-1].stage
    for result in reversed(results):
        if result.overrides.get(key) != value:
            break
        found = result.stage
    return found
