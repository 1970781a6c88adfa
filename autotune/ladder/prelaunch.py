"""Whether a candidate is launched at all, given what the memory forecast says of it. Pure.

Never rejected: what the stage measures against or falls back on (the user's own configuration, the
start handed down, the safest point), every tenth hopeless one (it audits the forecast), and anything at
all once audits have contradicted the forecast.
"""

from __future__ import annotations

from autotune.forecast.rejection import SURE, AuditRecord, Judgement, is_audited
from autotune.judge.kinds import FailureKind, oom_kind
from autotune.ladder.view import StageView
from autotune.records import Candidate, Failure, FailureGroup, Figures, Outcome, Verdict
from autotune.search.moves import is_among, safest_point

SURE_OF_A_MOVE = 0.99
"""A repair answers something that was seen, and the moves after it build on what it shows; so more certainty
is asked for than of a sampler's guess."""


def rejection(
    view: StageView, candidate: Candidate, number: int, judged: Judgement, record: AuditRecord
) -> Verdict | None:
    """The verdict on a candidate that is not launched; None: launch it.

    Args:
        view: The stage at this moment.
        candidate: Who is about to be launched.
        number: Its trial's number, which decides whether it is an audit.
        judged: What the corrected forecast says.
        record: What became of hopeless candidates that ran.
    """
    if not record.trusted or is_kept(view, candidate) or not judged.is_hopeless(_sure(candidate)):
        return None
    if is_audited(number):
        return None
    return Verdict(
        outcome=Outcome.REJECTED,
        figures=Figures(steps_asked=view.section.steps),
        failure=Failure(
            kind=_kind(judged.phase),
            group=FailureGroup.CANDIDATE,
            phase=judged.phase,
            cause=f"not launched, {judged.cause}",
        ),
    )


def is_kept(view: StageView, candidate: Candidate) -> bool:
    """Whether the stage runs this one whatever a forecast says."""
    kept = [view.space.user_params(), view.start.params, safest_point(view.space)]
    return is_among(candidate.params, kept)


def _sure(candidate: Candidate) -> float:
    return SURE_OF_A_MOVE if candidate.origin.startswith("repair of ") else SURE


def _kind(phase: str) -> str:
    if phase in ("rollout_start", "rollout"):
        # An engine whose share is too large shrinks; one that fails at its start is taken to want more.
        return FailureKind.OOM_GPU_ROLLOUT_WAKEUP.value
    return oom_kind(phase)
