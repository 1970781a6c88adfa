"""Events in, the same events out; memory curves thinned, peaks exact, nothing stored twice."""

import pytest

from autotune.records import (
    AttemptRole,
    Candidate,
    GuardStop,
    LogEvidence,
    MemorySample,
    MetricRow,
    PhaseMark,
    Progress,
    StageName,
)
from autotune.store.store import Store

ROWS = [
    MetricRow(step=1, at_s=21.0, values={"critic/rewards/mean": 0.25, "actor/grad_norm": None}),
    MetricRow(step=2, at_s=24.0, values={"critic/rewards/mean": None}),
]
MARKS = [
    PhaseMark(phase="rollout", at_s=20.0),
    LogEvidence(
        line_number=812,
        text="torch.OutOfMemoryError: \x1b[31m[/bold] \udce9",
        kind="oom_gpu_actor_update",
        phase="update_actor",
        level=4,
        at_s=22.5,
    ),
    GuardStop(kind="kl_drift", phase="update_actor", reason="KL 2.1 is over 1.0", at_s=23.0),
]


def sample(at_s, used_gb, device="gpu:0", phase="rollout", host_gb=0.0):
    return MemorySample(
        at_s=at_s, phase=phase, device=device, used_gb=used_gb, capacity_gb=80.0, host_gb=host_gb
    )


@pytest.fixture
def attempt(store, clock):
    trial_id = store.add_trial(
        StageName.SURVIVE, 0, Candidate(params={}, origin="sampler"), {}, clock.utc_now()
    )
    for index, attempt_id in enumerate(("a0", "a1")):
        store.start_attempt(
            trial_id,
            attempt_id=attempt_id,
            index=index,
            role=AttemptRole.MEASURE,
            folder="f",
            at_utc=clock.utc_now(),
        )
    return "a0"


def test_events_come_back_in_time_order(store, clock, attempt):
    store.add_events(attempt, [*MARKS, *reversed(ROWS), Progress(at_s=25.0, lines=1)], clock.utc_now())
    assert store.events(attempt) == [MARKS[0], ROWS[0], MARKS[1], MARKS[2], ROWS[1]]
    assert store.metric_rows(attempt) == ROWS
    assert store.events("a1") == []


def test_events_that_arrive_again_are_stored_once(store, clock, attempt):
    samples = [sample(0.0, 10.0), sample(3.0, 30.0), sample(3.5, 40.0)]
    store.add_events(attempt, [*MARKS[:1], ROWS[0], *samples], clock.utc_now())
    once = store.events(attempt)
    store.add_events(attempt, [*MARKS, *ROWS, *samples], clock.utc_now())
    store.add_events(attempt, [*MARKS, *ROWS, *samples], clock.utc_now())
    assert once == [sample(0.0, 10.0), sample(3.0, 30.0), sample(3.5, 40.0), MARKS[0], ROWS[0]]
    assert len(store.events(attempt)) == len(samples) + len(MARKS) + len(ROWS)


def test_more_marks_than_one_statement_may_name(store, clock, attempt):
    marks = [PhaseMark(phase="rollout", at_s=float(at_s)) for at_s in range(1200)]
    store.add_events(attempt, marks[:700], clock.utc_now())
    store.add_events(attempt, marks, clock.utc_now())
    assert store.events(attempt) == marks


def test_a_memory_curve_is_thinned_a_device_at_a_time(store, clock, attempt):
    samples = [sample(at / 4, 10.0, device) for at in range(41) for device in ("gpu:0", "gpu:1")]
    for one in samples:
        store.add_events(attempt, [one], clock.utc_now())
    stored = store.events(attempt)
    assert [one.at_s for one in stored if one.device == "gpu:1"] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert len(stored) == 12


@pytest.mark.parametrize("at_once", [True, False])
def test_peaks_between_the_kept_samples_are_exact(store, clock, attempt, at_once):
    samples = [
        sample(0.0, 10.0, host_gb=5.0),
        sample(0.5, 71.5, host_gb=4.0),
        sample(0.6, 20.0, phase="update_actor", host_gb=9.0),
        sample(0.9, 60.0, host_gb=7.0),
    ]
    for batch in [samples] if at_once else [[one] for one in samples]:
        store.add_events(attempt, batch, clock.utc_now())
    stored = store.events(attempt)
    assert max(one.used_gb for one in stored if one.phase == "rollout") == 71.5
    assert max(one.host_gb for one in stored if one.phase == "rollout") == 7.0
    assert sample(0.6, 20.0, phase="update_actor", host_gb=9.0) in stored


def test_another_process_adds_only_what_is_new(store, url, clock, attempt):
    early = [*MARKS[:1], ROWS[0], sample(0.0, 10.0), sample(3.0, 30.0)]
    store.add_events(attempt, early, clock.utc_now())
    with Store.open(url, job_name=store.job_name, job_hash="0123456789abcdef", version="0.1.0") as other:
        other.add_events(attempt, [*early, *MARKS, *ROWS, sample(3.5, 40.0, host_gb=2.0)], clock.utc_now())
        events = other.events(attempt)
    assert len(events) == len(MARKS) + len(ROWS) + 3
    assert sample(3.5, 40.0, host_gb=2.0) in events
