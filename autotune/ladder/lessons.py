"""What finished trials teach the forecast: their measured peaks against what was predicted, and the audits.

Pure: the same trials give the same correction, whether they finished just now or are read from the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.forecast.correction import Beliefs, Correction, MeasuredPeak
from autotune.forecast.memory import USABLE_FRAC
from autotune.forecast.rejection import AuditRecord, Judgement
from autotune.judge.kinds import FailureKind
from autotune.ladder.flight import EndedAttempt
from autotune.records import AttemptRole, Outcome, Verdict

_WHOLE_STEPS = 2
"""Before the first update there are no optimizer states, so a first step's peaks are not the run's."""
_OVER_THE_DEVICE = frozenset(
    (
        FailureKind.OOM_GPU_INIT,
        FailureKind.OOM_GPU_ROLLOUT_WAKEUP,
        FailureKind.OOM_GPU_ROLLOUT_RUNTIME,
        FailureKind.OOM_GPU_LOG_PROB,
        FailureKind.OOM_GPU_CRITIC,
        FailureKind.OOM_GPU_ACTOR_UPDATE,
        FailureKind.OOM_GPU_WEIGHT_SYNC,
        FailureKind.OOM_GPU_CHECKPOINT,
    )
)
"""Not a cache that was too small, a leak, or the host's memory: those are no peak over the device."""


@dataclass(frozen=True)
class Lesson:
    """One finished trial: what was forecast at its launch, and what its attempts did."""

    judgement: Judgement
    attempts: tuple[EndedAttempt, ...] = ()
    """In order; empty for a candidate that was never launched."""


def corrected(capacity_gb: float, beliefs: Beliefs, lessons: Iterable[Lesson]) -> Correction:
    """The correction after these trials."""
    peaks = [
        peak
        for lesson in lessons
        for attempt in lesson.attempts
        for peak in measured_peaks(lesson.judgement, attempt)
    ]
    return Correction(capacity_gb, beliefs).learn(peaks)


def measured_peaks(judgement: Judgement, attempt: EndedAttempt) -> list[MeasuredPeak]:
    """What one attempt measured, phase by phase, of the phases that the forecast knows.

    A phase in which the attempt failed is left out, since it was not seen to its end; where it ran
    out of memory, the device is a bound under its peak, unless others had run in its process
    before and left something. Attempts that somebody else ended say nothing.
    """
    role, verdict = attempt.role, attempt.verdict
    if verdict.outcome not in (Outcome.COMPLETED, Outcome.FAILED):
        return []
    failed_in = verdict.failure.phase if verdict.failure is not None else None
    found: list[MeasuredPeak] = []
    if verdict.figures.steps >= _WHOLE_STEPS:
        for phase, frac in verdict.figures.peak_by_phase_frac.items():
            predicted_gb = _predicted(judgement, role, phase)
            if predicted_gb is not None and phase != failed_in:
                measured_gb = frac * judgement.capacity_gb
                found.append(MeasuredPeak(phase=phase, predicted_gb=predicted_gb, measured_gb=measured_gb))
    if failed_in is not None and not attempt.shared and ran_out_of_memory(verdict):
        predicted_gb = _predicted(judgement, role, failed_in)
        if predicted_gb is not None:
            bound_gb = USABLE_FRAC * judgement.capacity_gb
            found.append(
                MeasuredPeak(phase=failed_in, predicted_gb=predicted_gb, measured_gb=bound_gb, is_bound=True)
            )
    return found


def audits(lessons: Iterable[Lesson]) -> AuditRecord:
    """What became of the candidates that were hopeless and ran anyway, the user's own among them."""
    record = AuditRecord()
    for lesson in lessons:
        ran = [attempt.verdict for attempt in lesson.attempts if attempt.role is AttemptRole.MEASURE]
        if not ran or not lesson.judgement.is_hopeless():
            continue
        if ran_out_of_memory(ran[-1]):
            record = record.after(ran_out_of_memory=True)
        elif ran[-1].figures.steps >= _WHOLE_STEPS:
            record = record.after(ran_out_of_memory=False)
    return record


def ran_out_of_memory(verdict: Verdict) -> bool:
    """Whether a peak of the attempt was over its device."""
    failure = verdict.failure
    return verdict.outcome is Outcome.FAILED and failure is not None and failure.kind in _OVER_THE_DEVICE


def _predicted(judgement: Judgement, role: AttemptRole, phase: str) -> float | None:
    one = judgement.of(phase)
    if one is None:
        return None
    return one.at_limit_gb if role is AttemptRole.CERTIFICATE else one.predicted_gb
