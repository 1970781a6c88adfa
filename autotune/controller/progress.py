"""What somebody who watches the controller gets to see; values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autotune.controller.flight import Flight
from autotune.job.model import BudgetSection
from autotune.records import AttemptRole, StageName


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
    )
