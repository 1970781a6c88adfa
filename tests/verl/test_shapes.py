"""Another shape of a run on CPU: PPO with a critic on two data-parallel ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.records import MemorySample, MetricRow, Outcome
from tests.verl.stories import Told

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2400)]


def test_ppo_with_critic_on_two_ranks(told: Callable[[str], Told]) -> None:
    story = told("ppo_with_critic_on_two_ranks")
    assert story.trials[0].verdict is not None
    assert story.trials[0].verdict.outcome is Outcome.COMPLETED, story.output
    rows = [event for event in story.events if isinstance(event, MetricRow)]
    assert len(rows) == 3
    assert rows[-1].values["critic/vf_loss"] is not None
    samples = [event for event in story.events if isinstance(event, MemorySample)]
    assert {"update_actor", "update_critic"} <= {sample.phase for sample in samples}
    assert {"rank:0", "rank:1"} <= {sample.device for sample in samples}
