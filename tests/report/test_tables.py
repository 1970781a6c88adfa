"""The stable fields of a trial, and the table that people see."""

import json

import pytest

from autotune.records import Candidate, Figures, Outcome, StageName, Verdict
from autotune.report.tables import state, trial_json, trials_json, trials_table
from autotune.store.stored import StoredTrial

STABLE = [
    *("stage", "number", "state", "outcome", "kind", "params", "objective", "peak_memory_frac"),
    *("tokens_per_s_per_gpu", "reward", "kl", "gpu_s", "started_utc", "ended_utc", "session"),
]


def test_stable_fields(climbed):
    fits, oom, running = trials_json(
        climbed.trials(), climbed.device_s_by_trial(), climbed.session_by_trial()
    )
    for one in (fits, oom, running):
        assert list(one)[: len(STABLE)] == STABLE
        json.dumps(one, allow_nan=False)
    assert fits == {
        "stage": "survive",
        "number": 0,
        "state": "complete",
        "outcome": "completed",
        "kind": None,
        "params": {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4},
        "objective": 0.285,
        "peak_memory_frac": 0.715,
        "tokens_per_s_per_gpu": 1234.5,
        "reward": 0.62,
        "kl": 0.08,
        "gpu_s": 180.0,
        "started_utc": "2026-01-01T00:00:00+00:00",
        "ended_utc": "2026-01-01T00:01:30+00:00",
        "session": None,
        "origin": "user [configuration]",
        "accepted": True,
        "reason": None,
        "objective_half_width": None,
    }
    assert (oom["state"], oom["outcome"], oom["kind"]) == ("pruned", "failed", "oom_gpu_actor_update")
    assert "2.3 GB" in oom["reason"]
    assert (running["state"], running["outcome"], running["ended_utc"]) == ("running", None, None)


@pytest.mark.parametrize(
    ("outcome", "pruned", "word"),
    [
        (Outcome.COMPLETED, False, "complete"),
        (Outcome.COMPLETED, True, "pruned"),
        (Outcome.REJECTED, True, "pruned"),
        (Outcome.INFRASTRUCTURE, False, "fail"),
        (Outcome.STOPPED, False, "fail"),
    ],
)
def test_states_are_optunas(clock, outcome, pruned, word):
    trial = StoredTrial(
        id=1,
        stage=StageName.SPEED,
        number=0,
        candidate=Candidate(params={"x": float("nan")}, origin="sampler"),
        overrides={},
        started_utc=clock.utc_now(),
        verdict=Verdict(outcome=outcome, figures=Figures(reward=float("inf"))),
        pruned=pruned,
    )
    assert state(trial) == word
    assert trial_json(trial, 0.0)["params"] == {"x": None}
    assert trial_json(trial, 0.0)["reward"] is None


def test_the_table_shows_what_decided(climbed, printed):
    text = printed(trials_table(climbed.trials(), climbed.device_s_by_trial()))
    lines = text.splitlines()
    assert "survive/0" in lines[1]
    assert "completed accepted" in lines[1]
    assert "72 %" in lines[1]
    assert "actor.ppo_micro_batch_size_per_gpu=4" in lines[1]
    assert "user [configuration]" in text
    assert "oom_gpu_actor_update" in text
    assert "running" in text


def test_an_empty_table_is_a_heading(printed):
    assert "outcome" in printed(trials_table([], {}))
