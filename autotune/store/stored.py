"""What comes back out of the database: frozen copies, never live rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autotune.records import (
    AttemptEnd,
    AttemptRole,
    AttemptState,
    Candidate,
    Overrides,
    StageName,
    Verdict,
)


@dataclass(frozen=True, kw_only=True)
class StoredTrial:
    """One trial of a stage. `ended_utc`, `verdict` and `objective` are None while it runs."""

    id: int
    stage: StageName
    number: int
    """Optuna's number within the stage's study."""
    candidate: Candidate
    overrides: Overrides
    """Everything laid over the job's own configuration, earlier stages included."""
    started_utc: datetime
    ended_utc: datetime | None = None
    verdict: Verdict | None = None
    objective: float | None = None
    accepted: bool = False
    pruned: bool = False
    """Told to Optuna as PRUNED rather than COMPLETE or FAIL."""


@dataclass(frozen=True, kw_only=True)
class StoredAttempt:
    """One launch of verl for a trial; a retry is a further attempt of the same trial."""

    attempt_id: str
    trial_id: int
    index: int
    role: AttemptRole
    state: AttemptState
    folder: str
    started_utc: datetime
    last_seen_utc: datetime
    ended_utc: datetime | None = None
    devices: int = 1
    """Held while it ran."""
    device_s: float = 0.0
    """Device seconds: devices held times seconds held."""
    end: AttemptEnd | None = None
    verdict: Verdict | None = None
