"""When what a running attempt reports is stored: what decides something at once, the rest beside it."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.clock import Clock
from autotune.controller.flight import Flight
from autotune.records import AttemptEnd, Event, GuardStop, LogEvidence, MetricRow
from autotune.store.store import Store

LONGEST_WAIT_S = 5.0
"""Phase marks, memory samples and signs of life wait for a metric row, or for so long."""


def store_events(flight: Flight, events: Sequence[Event], store: Store, clock: Clock) -> None:
    """Stores `events` and what waited before them, or lets them wait.

    A transaction for each phase mark would be most of the controller's work. What a crash takes from
    here stands in the attempt's own folder, but for the last memory samples.
    """
    flight.unwritten += events
    now_s = clock.now_s()
    if any(map(_decides, events)) or now_s - flight.written_s >= LONGEST_WAIT_S:
        store.add_events(flight.attempt_id, flight.unwritten, clock.utc_now())
        flight.unwritten, flight.written_s = [], now_s


def _decides(event: Event) -> bool:
    return isinstance(event, (MetricRow, LogEvidence, GuardStop, AttemptEnd))
