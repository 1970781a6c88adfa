"""Each guard on real verl: kind, phase and decisive line are recorded, and nothing is left behind.

Out of memory in the actor's update and a killed worker are part of the small ladder; KL drift, gradients and
rewards that are not finite, and out of memory in the log-prob pass of the warm session.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from autotune.records import FailureGroup, GuardStop, Outcome
from tests.verl.stories import SECRET, Told

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2400)]

Tell = Callable[[str], Told]


def _nothing_left(story: Told) -> None:
    for attempt in story.attempts:
        assert attempt.end is not None
        assert attempt.end.left_behind == ()
        assert attempt.end.clean_up_s < 30.0


@pytest.mark.parametrize(
    ("name", "kind", "phase"),
    [("silent_hang", "hang_rollout", "rollout"), ("wall_limit", "wall_limit", None)],
)
def test_a_candidates_fault_ends_the_trial(told: Tell, name: str, kind: str, phase: str | None) -> None:
    story = told(name)
    (trial,) = story.trials
    assert trial.verdict is not None
    assert trial.verdict.outcome is Outcome.FAILED, story.output
    failure = trial.verdict.failure
    assert failure is not None
    assert (failure.kind, failure.group) == (kind, FailureGroup.CANDIDATE)
    assert phase is None or failure.phase == phase
    assert trial.pruned
    assert story.exit_code == 3
    assert len(story.attempts) == 1
    _nothing_left(story)


@pytest.mark.parametrize("name", ["silent_hang", "wall_limit"])
def test_a_guard_says_why_it_ended_the_attempt(told: Tell, name: str) -> None:
    stops = [event for event in told(name).events if isinstance(event, GuardStop)]
    assert len(stops) == 1
    assert stops[0].reason


def test_raising_reward_stops_the_study_with_one_message(told: Tell) -> None:
    story = told("raising_reward")
    (trial,) = story.trials
    assert trial.verdict is not None
    assert trial.verdict.outcome is Outcome.USER_FAULT
    assert trial.verdict.failure is not None
    assert trial.verdict.failure.kind == "reward_function"
    assert "no such answer" in trial.verdict.failure.line
    assert story.exit_code == 2
    assert "no such answer" in story.output
    _nothing_left(story)


def test_a_stop_is_told_to_the_jobs_command(told: Tell) -> None:
    notice = json.loads((told("raising_reward").folder / "told.json").read_text())
    assert (notice["event"], notice["outcome"], notice["exit_code"]) == ("stop", "user code", 2)
    assert "no such answer" in notice["statement"]


def test_a_secret_reaches_verl_and_is_written_nowhere(told: Tell) -> None:
    story = told("raising_reward")
    results = [path for path in (story.folder / "results").rglob("*") if path.is_file()]
    assert len(results) > 5
    assert [path for path in results if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in story.output
