"""What somebody who watches the controller gets to see; values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autotune.controller.flight import Flight
from autotune.job.model import BudgetSection
from autotune.judge.evidence import Evidence
from autotune.ladder.view import TrialView
from autotune.records import AttemptRole, Figures, StageName


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """One device of a running attempt; fractions of its capacity."""

    device: str
    used_frac: float
    """By the latest sample."""
    peak_frac: float
    capacity_gb: float


@dataclass(frozen=True, kw_only=True)
class FinishedTrial:
    """A trial that was told."""

    number: int
    outcome: str
    """Failure kind where there is one, else the outcome."""
    accepted: bool
    figures: Figures


@dataclass(frozen=True, kw_only=True)
class FlightProgress:
    """One running attempt."""

    number: int
    role: AttemptRole
    attempt: int
    phase: str
    step: int
    steps: int
    elapsed_s: float
    tokens_per_s_per_gpu: float | None
    reward: float | None
    kl: float | None
    peak_memory_frac: float | None
    devices: tuple[DeviceMemory, ...] = ()
    """Those of known capacity."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where the job stands at one moment."""

    stage: StageName
    told: int
    planned: int
    best: float | None
    device_s: float
    wall_s: float
    budget: BudgetSection
    flights: tuple[FlightProgress, ...]
    trials: int = 0
    """Told over all stages."""
    memory_limit_frac: float | None = None
    """Largest share of a device that the stage accepts."""
    finished: tuple[FinishedTrial, ...] = ()
    """The stage's latest, oldest first."""


class Watcher(Protocol):
    """Shows progress; never decides anything."""

    def show(self, standing: Standing) -> None:
        """Called on every turn of the loop; has to be cheap."""
        ...

    def say(self, text: str) -> None:
        """Something worth a line of its own happened."""
        ...


class SilentWatcher:
    """Watches nothing: for tests and `--quiet`."""

    def show(self, standing: Standing) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


def flight_progress(flight: Flight, kl_metric: str, now_s: float) -> FlightProgress:
    """The latest row and memory peak of a running attempt."""
    rows = flight.evidence.rows
    values = rows[-1].values if rows else {}
    peaks = flight.evidence.peak_frac_by_phase().values()
    return FlightProgress(
        number=flight.number,
        role=flight.role,
        attempt=flight.index,
        phase=flight.evidence.phase,
        step=rows[-1].step if rows else 0,
        steps=flight.steps,
        elapsed_s=now_s - flight.started_s,
        tokens_per_s_per_gpu=values.get("perf/throughput"),
        reward=values.get("critic/rewards/mean"),
        kl=values.get(kl_metric),
        peak_memory_frac=max(peaks, default=None),
        devices=device_memory(flight.evidence),
    )


def device_memory(evidence: Evidence) -> tuple[DeviceMemory, ...]:
    """Use and peak of each device, in the order of their names."""
    peaks_gb: dict[str, float] = {}
    for (device, _), used_gb in evidence.peaks_gb.items():
        peaks_gb[device] = max(peaks_gb.get(device, 0.0), used_gb)
    return tuple(
        DeviceMemory(
            device=device,
            used_frac=evidence.last_used_gb.get(device, 0.0) / capacity_gb,
            peak_frac=peaks_gb.get(device, 0.0) / capacity_gb,
            capacity_gb=capacity_gb,
        )
        for device, capacity_gb in sorted(evidence.capacity_gb.items())
    )


def finished_trial(view: TrialView) -> FinishedTrial:
    """What became of a trial that was told."""
    assert view.verdict is not None
    failure = view.verdict.failure
    return FinishedTrial(
        number=view.number,
        outcome=failure.kind if failure else view.verdict.outcome.value,
        accepted=view.accepted,
        figures=view.verdict.figures,
    )
