"""Learning from finished trials: measured peaks correct the forecast, phase by phase, with uncertainty.

Model: measured = (1 + scale) * predicted + offset + noise. Scale and offset are Gaussian with mean zero
before anything is measured, so the raw forecast is the starting point; each measurement updates them in
closed form (Bayesian linear regression with two weights). All phases share one offset's prior but learn
apart, because their errors have different causes. A trial that ran out of memory measured no peak but a
bound under it; the weights then take the moments of the normal distribution cut off at that bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SCALE_SD = 0.15
"""Prior deviation of the scale: the allocator's slack alone, the least certain term, is a seventh of a
typical peak (39.7 / 34.8 GB reserved over allocated in a public verl log)."""
OFFSET_SD_FRAC = 0.05
"""Prior deviation of the offset, of the device: contexts, libraries and a sleeping rollout engine were
reported between 1 and 7 GB of 80 (NVIDIA-NeMo/RL#223, vllm#32714)."""
NOISE_SD_FRAC = 0.01
"""Deviation of one measured peak, of the device: the fullest micro batch differs from run to run."""


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """What is believed before anything is measured, and how far one measurement can be trusted."""

    scale_sd: float = SCALE_SD
    offset_sd_frac: float = OFFSET_SD_FRAC
    noise_sd_frac: float = NOISE_SD_FRAC


GPU = Beliefs()
CAPPED_CPU_WORKER = Beliefs(offset_sd_frac=0.5, noise_sd_frac=0.1)
"""A worker under a memory cap holds more than tensors: what libraries allocate after the cap is set and what
malloc does not give back. On the tiny job it is half of the cap, and the same part of one step differs by a
tenth of the cap from step to step."""


@dataclass(frozen=True, kw_only=True)
class MeasuredPeak:
    """One phase of one finished trial."""

    phase: str
    predicted_gb: float
    """By the uncorrected forecast."""
    measured_gb: float
    is_bound: bool = False
    """It ran out of memory there: the peak would have been over `measured_gb`."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A corrected peak with its uncertainty."""

    mean_gb: float
    sd_gb: float

    def probability_over(self, capacity_gb: float) -> float:
        """Probability that the peak is over `capacity_gb`."""
        if self.sd_gb <= 0.0:
            return 1.0 if self.mean_gb > capacity_gb else 0.0
        return 0.5 * math.erfc((capacity_gb - self.mean_gb) / (self.sd_gb * math.sqrt(2.0)))


@dataclass(frozen=True)
class _Weights:
    """Mean and covariance of (scale, offset): the state of one phase."""

    scale: float
    offset: float
    scale_variance: float
    covariance: float
    offset_variance: float

    def at(self, predicted_gb: float) -> tuple[float, float]:
        """Mean and variance of the noiseless peak."""
        variance = (
            predicted_gb**2 * self.scale_variance
            + 2.0 * predicted_gb * self.covariance
            + self.offset_variance
        )
        return (1.0 + self.scale) * predicted_gb + self.offset, max(variance, 0.0)

    def after(self, predicted_gb: float, measured_gb: float, noise_variance: float) -> _Weights:
        """The weights with one more measurement (one step of the Kalman filter)."""
        mean, variance = self.at(predicted_gb)
        total = variance + noise_variance
        return self._moved(predicted_gb, (measured_gb - mean) / total, 1.0 / total)

    def above(self, predicted_gb: float, bound_gb: float, noise_variance: float) -> _Weights:
        """The weights once the peak is known to be over `bound_gb`: moments of a truncated normal."""
        mean, variance = self.at(predicted_gb)
        total = variance + noise_variance
        place = (bound_gb - mean) / math.sqrt(total)
        hazard = _hazard(place)
        return self._moved(predicted_gb, hazard / math.sqrt(total), hazard * (hazard - place) / total)

    def _moved(self, predicted_gb: float, surprise: float, certainty: float) -> _Weights:
        """The weights moved along what a peak at `predicted_gb` says of them."""
        towards_scale = predicted_gb * self.scale_variance + self.covariance
        towards_offset = predicted_gb * self.covariance + self.offset_variance
        return _Weights(
            self.scale + towards_scale * surprise,
            self.offset + towards_offset * surprise,
            self.scale_variance - towards_scale**2 * certainty,
            self.covariance - towards_scale * towards_offset * certainty,
            self.offset_variance - towards_offset**2 * certainty,
        )


def _hazard(place: float) -> float:
    """Density over upper tail of the standard normal; its asymptote where the tail is too small."""
    tail = 0.5 * math.erfc(place / math.sqrt(2.0))
    if tail < 1e-12:
        return place + 1.0 / place
    return math.exp(-0.5 * place**2) / math.sqrt(2.0 * math.pi) / tail


@dataclass(frozen=True)
class Correction:
    """What the finished trials of one job on one machine taught. Immutable: `learn` returns a new one."""

    capacity_gb: float
    beliefs: Beliefs = GPU
    measurements: int = 0
    _by_phase: Mapping[str, _Weights] = field(default_factory=dict)

    def learn(self, peaks: Iterable[MeasuredPeak]) -> Correction:
        """This with more measurements.

        Their order does not matter, but for bounds: what they say depends on what is known by then, so
        they come last, in the order given.
        """
        by_phase, number = dict(self._by_phase), self.measurements
        noise = self._noise_variance()
        for peak in sorted(peaks, key=lambda one: one.is_bound):
            before = by_phase.get(peak.phase, self._prior())
            move = before.above if peak.is_bound else before.after
            by_phase[peak.phase] = move(peak.predicted_gb, peak.measured_gb, noise)
            number += 1
        return Correction(self.capacity_gb, self.beliefs, number, by_phase)

    def estimate(self, phase: str, predicted_gb: float) -> Estimate:
        """The peak of a phase that the forecast puts at `predicted_gb`, with the noise of one run."""
        mean, variance = self._by_phase.get(phase, self._prior()).at(predicted_gb)
        return Estimate(mean_gb=max(mean, 0.0), sd_gb=math.sqrt(variance + self._noise_variance()))

    def _noise_variance(self) -> float:
        return (self.beliefs.noise_sd_frac * self.capacity_gb) ** 2

    def _prior(self) -> _Weights:
        offset_variance = (self.beliefs.offset_sd_frac * self.capacity_gb) ** 2
        return _Weights(0.0, 0.0, self.beliefs.scale_sd**2, 0.0, offset_variance)
