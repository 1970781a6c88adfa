"""One trial in the air: its attempts so far and the evidence of the running one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autotune.judge.evidence import Evidence
from autotune.ladder import acceptance, strategy
from autotune.ladder.flight import EndedAttempt
from autotune.ladder.objective import objective
from autotune.ladder.view import StageView, TrialView
from autotune.records import AttemptRole, Candidate, Event, MetricRow, Overrides, Verdict


@dataclass(kw_only=True)
class Flight:
    """Mutable on purpose: only the controller's loop holds it, and only while the trial runs."""

    trial_id: int
    number: int
    candidate: Candidate
    overrides: Overrides
    """Everything over the job's own configuration, earlier stages included."""
    attempts: list[EndedAttempt] = field(default_factory=list)
    gpus: int = 1
    """Held by the running attempt; on CPU its ranks."""
    index: int = -1
    """Of the running attempt; counts lost ones too."""
    attempt_id: str = ""
    role: AttemptRole = AttemptRole.MEASURE
    steps: int = 0
    """Steps that the running attempt was asked for."""
    started_s: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    end_asked: bool = False
    rows_weighed: int = 0
    """Metric rows at which it was last asked whether the trial can still win."""
    unwritten: list[Event] = field(default_factory=list)
    """Reported, and not stored yet."""
    written_s: float = 0.0
    """When something was stored last, by the controller's clock."""
    rows: list[MetricRow] = field(default_factory=list)
    """Of the latest measuring attempt; a certificate's are no curve of the stage."""


def curve(rows: list[MetricRow], key: str) -> tuple[float, ...]:
    """The values of one metric by step, NaN and missing ones left out."""
    values = (row.values.get(key) for row in rows)
    return tuple(value for value in values if value is not None)


def judged_view(flight: Flight, verdict: Verdict, stage_view: StageView, kl_metric: str) -> TrialView:
    """The trial as its stage sees it once `verdict` is known; `kl_metric` is the guard's."""
    view = TrialView(
        number=flight.number,
        candidate=flight.candidate,
        verdict=verdict,
        objective=objective(stage_view.stage, verdict),
        rewards=curve(flight.rows, "critic/rewards/mean"),
        kls=curve(flight.rows, kl_metric),
    )
    # The trial counts towards its own baseline, so that a repeat is compared with what it is.
    baseline = strategy.baseline(stage_view.with_trial(view))
    return replace(view, accepted=acceptance.is_accepted(stage_view.section, verdict, baseline))
