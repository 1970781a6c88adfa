"""Whether a candidate is hopeless before it is launched, how much so, and the audit of that judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.forecast.correction import Correction
from autotune.forecast.memory import USABLE_FRAC, MemoryForecast, PhasePeak

SURE = 0.95
"""Probability of running out of memory from which on a candidate is not launched."""
AUDIT_EVERY = 10
"""One of so many rejected candidates runs anyway."""


@dataclass(frozen=True, kw_only=True)
class PhaseForecast:
    """One phase's peak on one device as it was expected at the launch."""

    phase: str
    predicted_gb: float
    """By the uncorrected forecast."""
    expected_gb: float
    """Corrected by the trials that had finished by then."""
    sd_gb: float
    """Standard deviation of `expected_gb`."""
    largest_term: str
    at_limit_gb: float | None = None
    """`predicted_gb` where every prompt and response is at its limit, as in survive's certificate."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the forecast says of one candidate; stored with its trial."""

    capacity_gb: float
    phases: tuple[PhaseForecast, ...]
    probability_of_oom: float
    """That its worst phase is over the device."""
    phase: str
    """The worst one, by probability."""
    measurements: int = 0
    """Measured peaks that had corrected it."""

    def is_hopeless(self, sure: float = SURE) -> bool:
        """Whether it runs out of memory with at least this probability."""
        return self.probability_of_oom >= sure

    def of(self, phase: str) -> PhaseForecast | None:
        """One phase; None where the configuration does not have it."""
        return next((one for one in self.phases if one.phase == phase), None)

    @property
    def expected_frac(self) -> Mapping[str, float]:
        """Expected peak by phase as a share of the device, unclipped."""
        return {one.phase: one.expected_gb / self.capacity_gb for one in self.phases}

    @property
    def cause(self) -> str:
        """The worst phase in one sentence for people."""
        worst = self.of(self.phase)
        if worst is None:
            return ""
        return (
            f"{worst.phase} would need {gb_text(worst.expected_gb)} +- {gb_text(worst.sd_gb)} GB "
            f"of {gb_text(self.capacity_gb)}; {worst.largest_term} takes most"
        )


def gb_text(gb: float) -> str:
    """Gigabytes to a tenth, tiny devices to a hundredth."""
    return f"{gb:.1f}" if gb >= 10.0 else f"{gb:.2f}"


def judge(
    made: MemoryForecast, correction: Correction, *, at_limit: MemoryForecast | None = None
) -> Judgement:
    """The forecast of a candidate in the light of the job's finished trials.

    Args:
        made: For the lengths that the job's data usually give.
        correction: What measured peaks taught so far.
        at_limit: The same candidate's with every sample at its limit; kept, never judged by.
    """
    usable_gb = USABLE_FRAC * made.capacity_gb
    phases = tuple(_phase(one, correction, at_limit) for one in made.phases)
    chances = {
        one.phase: correction.estimate(one.phase, one.predicted_gb).probability_over(usable_gb)
        for one in phases
    }
    worst = max(phases, key=lambda one: (chances[one.phase], one.expected_gb))
    return Judgement(
        capacity_gb=made.capacity_gb,
        phases=phases,
        probability_of_oom=chances[worst.phase],
        phase=worst.phase,
        measurements=correction.measurements,
    )


def _phase(one: PhasePeak, correction: Correction, at_limit: MemoryForecast | None) -> PhaseForecast:
    found = correction.estimate(one.phase, one.peak_gb)
    return PhaseForecast(
        phase=one.phase,
        predicted_gb=one.peak_gb,
        expected_gb=found.mean_gb,
        sd_gb=found.sd_gb,
        largest_term=one.largest_term,
        at_limit_gb=None if at_limit is None else at_limit.peak_of(one.phase),
    )


def is_audited(trial_number: int, *, every: int = AUDIT_EVERY) -> bool:
    """A hopeless candidate with this trial number runs anyway; the same answer after a resumption.

    The numbers are spread (Knuth's multiplicative hash), so that a sampler's rhythm cannot dodge it.
    """
    return (trial_number * 2654435761 % 2**32) * every < 2**32


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What became of the hopeless candidates that ran anyway."""

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
