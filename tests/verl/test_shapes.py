"""Other shapes of a run on CPU: a critic, two data-parallel ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.records import MemorySample, MetricRow, Outcome
from tests.verl.stories import Told

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]


def test_ppo_with_critic_trains_and_is_measured(told: Callable[[str], Told]) -> None:
    story = told("ppo_with_critic")
    assert story.trials[0].verdict is not None
    assert story.trials[0].verdict.outcome is Outcome.COMPLETED, story.output
    rows = [event for event in story.events if isinstance(event, MetricRow)]
    assert len(rows) == 3
    assert rows[-1].values["critic/vf_loss"] is not None
    phases = {event.phase for event in story.events if isinstance(event, MemorySample)}
    assert {"update_actor", "update_critic"} <= phases


def test_two_ranks_are_measured_one_by_one(told: Callable[[str], Told]) -> None:
    story = told("two_ranks")
    assert story.trials[0].verdict is not None
    assert story.trials[0].verdict.outcome is Outcome.COMPLETED, story.output
    devices = {event.device for event in story.events if isinstance(event, MemorySample)}
    assert {"rank:0", "rank:1"} <= devices
