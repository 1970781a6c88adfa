"""Whether a candidate is hopeless before it is launched, how much so, and the audit of that judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.forecast.correction import Correction, Estimate
from autotune.forecast.memory import USABLE_FRAC, MemoryForecast

SURE = 0.95
"""Probability of running out of memory from which on a candidate is not launched."""
AUDIT_EVERY = 10
"""One of so many rejected candidates runs anyway."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the forecast says of one candidate."""

    probability_of_oom: float
    """That its worst phase is over the device."""
    phase: str
    """The worst one, by probability."""
    estimate: Estimate
    """The worst phase's peak."""
    constraints: Mapping[str, float] = field(default_factory=dict)
    """`memory_<phase>` to corrected peak / capacity - 1, never clipped: feasible when <= 0."""
    hopeless: bool
    cause: str
    """One sentence for people; empty where it is not hopeless."""


def judge(made: MemoryForecast, correction: Correction, *, sure: float = SURE) -> Judgement:
    """The forecast of a candidate in the light of the job's finished trials."""
    capacity_gb = USABLE_FRAC * made.capacity_gb
    estimates = {one.phase: correction.estimate(one.phase, one.peak_gb) for one in made.phases}
    chances = {phase: found.probability_over(capacity_gb) for phase, found in estimates.items()}
    phase = max(chances, key=lambda name: (chances[name], estimates[name].mean_gb))
    hopeless = chances[phase] >= sure
    cause = ""
    if hopeless:
        largest = next(one.largest_term for one in made.phases if one.phase == phase)
        cause = (
            f"{phase} would need {estimates[phase].mean_gb:.1f} +- {estimates[phase].sd_gb:.1f} GB "
            f"of {made.capacity_gb:.1f}; {largest} takes most"
        )
    return Judgement(
        probability_of_oom=chances[phase],
        phase=phase,
        estimate=estimates[phase],
        constraints={
            f"memory_{name}": found.mean_gb / made.capacity_gb - 1.0 for name, found in estimates.items()
        },
        hopeless=hopeless,
        cause=cause,
    )


def is_audited(trial_number: int, *, every: int = AUDIT_EVERY) -> bool:
    """A hopeless candidate with this trial number runs anyway; the same answer after a resumption.

    The numbers are spread (Knuth's multiplicative hash), so that a sampler's rhythm cannot dodge it.
    """
    return (trial_number * 2654435761 % 2**32) * every < 2**32


def may_launch(judgement: Judgement, trial_number: int, *, every: int = AUDIT_EVERY) -> bool:
    """True for a candidate that is not hopeless, and for a hopeless one that audits the forecast."""
    return not judgement.hopeless or is_audited(trial_number, every=every)


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What became of the rejected candidates that ran anyway."""

    audited: int = 0
    survived: int = 0
    """Ran without running out of memory: the forecast was wrong."""

    def after(self, *, ran_out_of_memory: bool) -> AuditRecord:
        """This with one more audited candidate."""
        return AuditRecord(audited=self.audited + 1, survived=self.survived + (0 if ran_out_of_memory else 1))

    @property
    def trusted(self) -> bool:
        """Rejections go on only while at most one in five audits, or a single one, contradicts them."""
        return self.survived <= max(1, self.audited // 5)
