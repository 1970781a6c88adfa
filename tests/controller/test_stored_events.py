"""What decides is stored at once; marks and samples come with it, in order, or after a while."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from autotune.clock import ManualClock
from autotune.controller.flight import Flight
from autotune.controller.stored_events import LONGEST_WAIT_S, store_events
from autotune.records import AttemptEnd, Candidate, GuardStop, LogEvidence, MetricRow, PhaseMark

MARK = PhaseMark(phase="rollout", at_s=1.0)
DECIDING = [
    MetricRow(step=1, at_s=2.0, values={}),
    GuardStop(kind="kl_drift", phase="rollout", reason="because", at_s=2.0),
    LogEvidence(line_number=1, text="x", kind="oom_gpu_init", phase="rollout", level=4, at_s=2.0),
    AttemptEnd(at_s=2.0, exit_code=0, asked=False),
]


@dataclass
class Written:
    """Stands where the store is: keeps what it is told."""

    batches: list[list[Any]] = field(default_factory=list)

    def add_events(self, attempt_id: str, events: Any, at_utc: Any) -> None:
        self.batches.append(list(events))


def flight() -> Flight:
    return Flight(trial_id=1, number=0, candidate=Candidate(params={}, origin="test"), overrides={})


@pytest.mark.parametrize("event", DECIDING, ids=lambda event: type(event).__name__)
def test_what_decides_is_stored_at_once_with_what_waited(event: Any) -> None:
    written, clock, one = Written(), ManualClock(), flight()
    store_events(one, [MARK], written, clock)
    assert written.batches == []
    store_events(one, [event], written, clock)
    assert written.batches == [[MARK, event]]
    assert one.unwritten == []


def test_a_silent_attempt_is_still_seen_alive() -> None:
    written, clock, one = Written(), ManualClock(), flight()
    store_events(one, [MARK], written, clock)
    clock.advance_s(LONGEST_WAIT_S)
    store_events(one, [MARK], written, clock)
    assert written.batches == [[MARK, MARK]]
    store_events(one, [MARK], written, clock)
    assert len(written.batches) == 1
