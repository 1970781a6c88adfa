"""What follows after an attempt of a trial ended: retry, certificate, tell, or stop the study. Pure.

any ended     --out of memory, shared---> the same again, alone: what others left may be the cause
MEASURE ended --completed and acceptable--> CERTIFICATE (survive) --> tell
              --infrastructure's fault----> the same again, as often as the kind allows
              --user's fault--------------> stop the study
              --anything else-------------> tell
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

from autotune.job.model import StageSection, SurviveStage
from autotune.judge.kinds import facts
from autotune.ladder.acceptance import is_accepted
from autotune.ladder.view import TrialView
from autotune.records import AttemptRole, Figures, Outcome, Verdict


@dataclass(frozen=True)
class EndedAttempt:
    """One attempt of the trial that is over, in the order of their indices."""

    role: AttemptRole
    verdict: Verdict
    shared: bool = False
    """True where its verl process had run other candidates before."""


@dataclass(frozen=True)
class Launch:
    """Start one more attempt of this trial."""

    role: AttemptRole
    reason: str
    alone: bool = False
    """True where only a process of its own will do."""


@dataclass(frozen=True)
class Tell:
    """The trial is over; this is the verdict on the whole of it."""

    verdict: Verdict


@dataclass(frozen=True)
class Abandon:
    """The user's code or data is at fault: tell the trial and stop the study."""

    verdict: Verdict


Next = Union[Launch, Tell, Abandon]


def after_attempt(section: StageSection, attempts: Sequence[EndedAttempt]) -> Next:
    """What to do next with a trial whose attempts so far are `attempts`, the latest last."""
    latest = attempts[-1]
    outcome, failure = latest.verdict.outcome, latest.verdict.failure
    if latest.shared and failure is not None and failure.kind.startswith("oom_"):
        return Launch(latest.role, "again in a process of its own, since others ran in this one", alone=True)
    if outcome is Outcome.INFRASTRUCTURE and failure is not None:
        same = sum(a.verdict.failure is not None and a.verdict.failure.kind == failure.kind for a in attempts)
        if same <= facts(failure.kind).retries:
            return Launch(latest.role, f"retry after {failure.kind}")
    whole = whole_verdict(attempts)
    if outcome is Outcome.USER_FAULT:
        return Abandon(whole)
    if latest.role is AttemptRole.MEASURE and needs_certificate(section, latest.verdict):
        return Launch(AttemptRole.CERTIFICATE, "longest prompts, every response at its limit")
    return Tell(whole)


def needs_certificate(section: StageSection, verdict: Verdict) -> bool:
    """Whether only the proof of the worst case is missing to accept this survivor."""
    wants = isinstance(section, SurviveStage) and section.certificate is not None
    return wants and is_accepted(section, verdict, None)


def whole_verdict(attempts: Sequence[EndedAttempt]) -> Verdict:
    """One verdict for the trial: the measured figures, with the worst memory and the last failure."""
    measured = [a.verdict for a in attempts if a.role is AttemptRole.MEASURE]
    proved = [a.verdict for a in attempts if a.role is AttemptRole.CERTIFICATE]
    verdict = measured[-1]
    if not proved:
        return verdict
    proof = proved[-1]
    figures = _worst_memory(verdict.figures, proof.figures)
    if proof.outcome is Outcome.COMPLETED:
        # What the proof warns of (every response cut off, two steps only) is how it was asked to run.
        return replace(verdict, figures=figures)
    return Verdict(outcome=proof.outcome, figures=figures, failure=proof.failure, warnings=proof.warnings)


def _worst_memory(measured: Figures, proof: Figures) -> Figures:
    by_phase = dict(measured.peak_by_phase_frac)
    for phase, peak in proof.peak_by_phase_frac.items():
        by_phase[phase] = max(peak, by_phase.get(phase, 0.0))
    higher = proof if (proof.peak_memory_frac or 0.0) > (measured.peak_memory_frac or 0.0) else measured
    return replace(
        measured,
        peak_memory_frac=higher.peak_memory_frac,
        peak_memory_gb=higher.peak_memory_gb,
        peak_memory_phase=higher.peak_memory_phase,
        peak_by_phase_frac=by_phase,
    )


def machine_at_fault(ended: Sequence[TrialView]) -> str | None:
    """Why a third trial would only cost: the last two were both ended by the machine. None while all is well.

    Args:
        ended: The stage's ended trials, in the order of their numbers.
    """
    latest = [trial for trial in ended[-2:] if trial.verdict is not None]
    faults = [trial for trial in latest if trial.verdict and trial.verdict.outcome is Outcome.INFRASTRUCTURE]
    if len(faults) < 2:
        return None
    causes = "; ".join(t.verdict.failure.cause for t in faults if t.verdict and t.verdict.failure)
    numbers = " and ".join(f"#{trial.number}" for trial in faults)
    return f"the machine ended trials {numbers} in a row ({causes})"
