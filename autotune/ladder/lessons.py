"""What finished trials teach the forecast: their measured peaks against what was predicted, and the audits.

Pure: the same trials give the same correction, whether they finished just now or are read from the store.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from autotune.forecast.correction import Beliefs, Correction, MeasuredPeak
from autotune.forecast.memory import USABLE_FRAC
from autotune.forecast.rejection import AuditRecord, Judgement
from autotune.judge.kinds import FailureKind
from autotune.ladder.flight import EndedAttempt
from autotune.records import AttemptRole, Outcome, Verdict

TrialKey = tuple[int, int]
"""Of a trial, over all stages: rung of the ladder, number."""
_UNSETTLED = 64
"""Latest lessons that are learned anew each time: trials that ran beside them may still come between."""
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


@dataclass(frozen=True)
class _Learned:
    """What the first lessons came to."""

    exact: Correction
    """After all that was measured; bounds come last."""
    bounds: tuple[MeasuredPeak, ...] = ()
    count: int = 0

    def after(self, lesson: Lesson) -> _Learned:
        """This with one more lesson."""
        peaks = _peaks([lesson])
        return _Learned(
            self.exact.learn(peak for peak in peaks if not peak.is_bound),
            (*self.bounds, *(peak for peak in peaks if peak.is_bound)),
            self.count + 1,
        )


@dataclass
class Lessons:
    """All lessons of a job in the order of their trials, and the correction that follows from them.

    A new lesson costs no more the longer the list is: what the older ones came to is kept, unless one
    of an older trial arrives late.
    """

    beliefs: Beliefs
    audits: AuditRecord = field(default_factory=AuditRecord)
    _by_trial: dict[TrialKey, Lesson] = field(default_factory=dict)
    _order: list[TrialKey] = field(default_factory=list)
    _settled: _Learned | None = None

    def learn(self, key: TrialKey, lesson: Lesson) -> None:
        """Takes in the lesson of a trial that has ended, once."""
        assert key not in self._by_trial
        if self._settled is not None and bisect_left(self._order, key) < self._settled.count:
            self._settled = None
        insort(self._order, key)
        self._by_trial[key] = lesson
        self.audits = audits([lesson], self.audits)

    def of(self, key: TrialKey) -> Lesson | None:
        """The lesson of one trial; None where no forecast of it could be made."""
        return self._by_trial.get(key)

    def correction(self, capacity_gb: float) -> Correction:
        """`corrected` by all lessons in their order."""
        learned = self._settled
        if learned is None or learned.exact.capacity_gb != capacity_gb:
            learned = _Learned(Correction(capacity_gb, self.beliefs))
        settled = max(len(self._order) - _UNSETTLED, learned.count)
        for key in self._order[learned.count : settled]:
            learned = learned.after(self._by_trial[key])
        self._settled = learned
        for key in self._order[settled:]:
            learned = learned.after(self._by_trial[key])
        return learned.exact.learn(learned.bounds)


def corrected(capacity_gb: float, beliefs: Beliefs, lessons: Iterable[Lesson]) -> Correction:
    """The correction after these trials."""
    return Correction(capacity_gb, beliefs).learn(_peaks(lessons))


def _peaks(lessons: Iterable[Lesson]) -> list[MeasuredPeak]:
    return [
        peak
        for lesson in lessons
        for attempt in lesson.attempts
        for peak in measured_peaks(lesson.judgement, attempt)
    ]


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


def audits(lessons: Iterable[Lesson], record: AuditRecord | None = None) -> AuditRecord:
    """`record` with what became of hopeless candidates that ran anyway, the user's own among them."""
    record = record or AuditRecord()
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
