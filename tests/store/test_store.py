"""Order of writes, what comes back, and what a crash leaves readable."""

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from autotune.forecast.rejection import Judgement, PhaseForecast
from autotune.records import (
    AttemptEnd,
    AttemptRole,
    AttemptState,
    Candidate,
    Failure,
    FailureGroup,
    Figures,
    MetricRow,
    Outcome,
    Progress,
    StageName,
    StageResult,
    Verdict,
)
from autotune.store.store import Store

CANDIDATE = Candidate(params={"data.train_batch_size": 16, "actor.optim.lr": 1e-6}, origin="sampler")
COMPLETED = Verdict(outcome=Outcome.COMPLETED, figures=Figures(steps=4, steps_asked=4, reward=0.5))
OOM = Verdict(
    outcome=Outcome.FAILED,
    figures=Figures(steps=1, steps_asked=4, peak_memory_frac=0.97),
    failure=Failure(
        kind="oom_gpu_actor_update",
        group=FailureGroup.CANDIDATE,
        phase="update_actor",
        cause="no memory left",
        line_number=812,
        line="torch.OutOfMemoryError: CUDA out of memory",
    ),
)
END = AttemptEnd(at_s=61.0, exit_code=1, asked=False, clean_up_s=0.4, tail=("last line",))


def add_trial(store, clock, number=0, stage=StageName.SURVIVE):
    return store.add_trial(stage, number, CANDIDATE, {"trainer.seed": 1}, clock.utc_now())


def start(store, clock, trial_id, attempt_id="a0", index=0, devices=1):
    store.start_attempt(
        trial_id,
        attempt_id=attempt_id,
        index=index,
        role=AttemptRole.MEASURE,
        folder=f"results/tiny/attempts/survive-0-{index}",
        at_utc=clock.utc_now(),
        devices=devices,
    )


def end_attempt(store, clock, attempt_id="a0", end=END, device_s=60.0):
    store.end_attempt(attempt_id, end=end, verdict=OOM, device_s=device_s, at_utc=clock.utc_now())


def end_trial(store, clock, trial_id, verdict=OOM, objective=0.25):
    store.end_trial(
        trial_id, verdict=verdict, objective=objective, accepted=False, pruned=True, at_utc=clock.utc_now()
    )


def test_a_trial_from_intent_to_outcome(store, clock):
    trial_id = add_trial(store, clock)
    started_utc = clock.utc_now()
    start(store, clock, trial_id)
    (starting,) = store.running_attempts()
    assert starting.state is AttemptState.STARTING
    clock.advance_s(1)
    store.attempt_is_running("a0", clock.utc_now())
    (running,) = store.running_attempts()
    assert running.state is AttemptState.RUNNING
    clock.advance_s(59)
    end_attempt(store, clock)
    end_trial(store, clock, trial_id)

    trial = store.trial(StageName.SURVIVE, 0)
    assert (trial.id, trial.candidate, trial.overrides) == (trial_id, CANDIDATE, {"trainer.seed": 1})
    assert (trial.started_utc, trial.ended_utc) == (started_utc, clock.utc_now())
    assert (trial.verdict, trial.objective, trial.accepted, trial.pruned) == (OOM, 0.25, False, True)
    (attempt,) = store.attempts(trial_id)
    assert (attempt.state, attempt.end, attempt.verdict) == (AttemptState.ENDED, END, OOM)
    assert store.running_attempts() == []
    assert store.events("a0") == [END]


def test_an_attempt_whose_runner_vanished_is_lost(store, clock):
    trial_id = add_trial(store, clock)
    start(store, clock, trial_id)
    end_attempt(store, clock, end=AttemptEnd(at_s=3.0, exit_code=None, asked=False, lost=True))
    assert store.attempts(trial_id)[0].state is AttemptState.LOST


def test_a_rejected_trial_needs_no_attempt(store, clock):
    trial_id = add_trial(store, clock)
    end_trial(store, clock, trial_id, objective=None)
    assert store.attempts(trial_id) == []
    assert store.device_s() == 0.0


def ended_trial(store, clock):
    trial_id = add_trial(store, clock)
    start(store, clock, trial_id)
    end_attempt(store, clock)
    end_trial(store, clock, trial_id)
    return trial_id


@pytest.mark.parametrize(
    ("act", "names"),
    [
        (lambda store, clock: add_trial(store, clock, number=0), "survive trial 0"),
        (lambda store, clock: start(store, clock, 1, attempt_id="a9"), "attempt a9.*trial 1 has ended"),
        (lambda store, clock: start(store, clock, 77), "id 77"),
        (lambda store, clock: store.attempt_is_running("a0", clock.utc_now()), "a0.*ended"),
        (lambda store, clock: end_attempt(store, clock), "a0.*ended"),
        (lambda store, clock: end_attempt(store, clock, "nobody"), "nobody"),
        (lambda store, clock: end_trial(store, clock, 1), "trial 1.*ended"),
        (lambda store, clock: store.add_events("nobody", [], clock.utc_now()), "nobody"),
    ],
)
def test_out_of_order_calls_are_the_callers_mistake(store, clock, act, names):
    ended_trial(store, clock)
    before = (store.trials(), store.attempts(1))
    with pytest.raises(ValueError, match=names):
        act(store, clock)
    assert (store.trials(), store.attempts(1)) == before


def test_a_trial_cannot_end_while_an_attempt_lives(store, clock):
    trial_id = add_trial(store, clock)
    start(store, clock, trial_id)
    with pytest.raises(ValueError, match="attempt a0 is not ended"):
        end_trial(store, clock, trial_id)


def test_a_nan_objective_is_refused_and_an_infinite_one_kept(store, clock):
    trial_id = add_trial(store, clock)
    with pytest.raises(ValueError, match="objective"):
        end_trial(store, clock, trial_id, objective=float("nan"))
    end_trial(store, clock, trial_id, objective=float("-inf"))
    assert store.trials()[0].objective == float("-inf")


def test_a_time_without_zone_is_refused(store, clock):
    with pytest.raises(Exception, match="timezone-aware"):
        store.add_trial(StageName.SURVIVE, 0, CANDIDATE, {}, clock.utc_now().replace(tzinfo=None))


def test_stages_number_their_trials_apart(store, clock):
    for stage in StageName:
        for number in range(2):
            add_trial(store, clock, number, stage)
    assert [trial.number for trial in store.trials(StageName.SPEED)] == [0, 1]
    assert len(store.trials()) == 2 * len(StageName)
    assert store.trial(StageName.QUALITY, 7) is None


def test_device_seconds_count_the_running_until_last_seen(store, clock):
    trial_id = add_trial(store, clock)
    start(store, clock, trial_id, "a0", devices=8)
    end_attempt(store, clock, "a0", device_s=100.0)
    start(store, clock, trial_id, "a1", 1, devices=8)
    clock.advance_s(5)
    store.add_events("a1", [Progress(at_s=5.0, lines=3)], clock.utc_now())
    clock.advance_s(1000)
    assert store.device_s() == store.device_s(StageName.SURVIVE) == 140.0
    assert store.device_s(StageName.SPEED) == 0.0
    assert store.device_s_by_trial() == {trial_id: 140.0}


def test_events_after_the_end_are_kept_and_move_no_clock(store, clock):
    trial_id = add_trial(store, clock)
    start(store, clock, trial_id)
    end_attempt(store, clock)
    seen_utc = store.attempts(trial_id)[0].last_seen_utc
    store.add_events("a0", [MetricRow(step=1, at_s=60.0, values={})], clock.utc_now() + timedelta(seconds=9))
    assert store.attempts(trial_id)[0].last_seen_utc == seen_utc
    assert len(store.metric_rows("a0")) == 1


def test_stage_results_come_back_in_climbing_order_and_are_replaced(store, clock):
    def result(stage, trials):
        return StageResult(
            stage=stage, trials=trials, accepted=(3, 1), acceptance_met=True, best=3, statement="fits"
        )

    store.end_stage(result(StageName.SPEED, 4), clock.utc_now())
    store.end_stage(result(StageName.SURVIVE, 2), clock.utc_now())
    store.end_stage(result(StageName.SPEED, 9), clock.utc_now())
    assert list(store.stage_results()) == [StageName.SURVIVE, StageName.SPEED]
    assert store.stage_results()[StageName.SPEED] == result(StageName.SPEED, 9)


def test_wall_time_adds_up_over_resumptions(url, store):
    store.add_wall_s(10.5)
    store.close()
    with Store.open(url, job_name="tiny", job_hash="0123456789abcdef", version="0.2.0") as again:
        again.add_wall_s(1.0)
        assert again.wall_s() == 11.5


def test_provenance_is_replaced_whole(store):
    assert store.provenance() == {}
    store.set_provenance({"verl": "0.9.0", "seeds": {"survive": 1}})
    store.set_provenance({"verl": "0.9.1"})
    assert store.provenance() == {"verl": "0.9.1"}


WRITE_UNTIL_KILLED = """
import sys
from autotune.clock import SystemClock
from autotune.records import AttemptRole, Candidate, MetricRow, StageName
from autotune.store.store import Store
store = Store.open(sys.argv[1], job_name="tiny", job_hash="0123456789abcdef", version="0.1.0")
now = SystemClock().utc_now()
trial = store.add_trial(StageName.SURVIVE, 0, Candidate(params={}, origin="sampler"), {}, now)
store.start_attempt(trial, attempt_id="a0", index=0, role=AttemptRole.MEASURE, folder="f", at_utc=now)
step = 0
while True:
    step += 1
    store.add_events("a0", [MetricRow(step=step, at_s=step, values={"r": step})], now)
    print(step, flush=True)
"""


def test_kill_9_loses_nothing_that_was_written(url, store):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, url], stdout=subprocess.PIPE, text=True
    )
    confirmed = 0
    for line in child.stdout:
        confirmed = int(line)
        if confirmed >= 20:
            os.kill(child.pid, signal.SIGKILL)
            break
    child.wait()
    (attempt,) = store.running_attempts()
    assert attempt.attempt_id == "a0"
    steps = [row.step for row in store.metric_rows("a0")]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= confirmed


def test_ten_thousand_trials_stay_quick(store, clock):
    for number in range(0, 10_000, 2_000):
        _add_many(store, clock, number, 2_000)
    trial_id = add_trial(store, clock, 10_000)
    start(store, clock, trial_id, "last")
    statements = []
    _count_statements(store, statements)
    rows = [MetricRow(step=step, at_s=float(step), values={"r": 0.5}) for step in range(1, 41)]
    store.add_events("last", rows, clock.utc_now())
    assert len(statements) <= 6, statements
    statements.clear()
    assert len(store.trials(StageName.SURVIVE)) == 10_001
    assert [s for s in statements if "metric_rows" in s or "marks" in s or "memory" in s] == []


def _add_many(store, clock, first, count):
    from sqlalchemy import insert

    from autotune.store.codec import to_text
    from autotune.store.tables import TrialRow

    with store._database.writing() as session:
        session.execute(
            insert(TrialRow),
            [
                {
                    "stage": "survive",
                    "number": first + offset,
                    "candidate": to_text(CANDIDATE),
                    "overrides": "{}",
                    "started_utc": clock.utc_now(),
                    "verdict": to_text(COMPLETED),
                }
                for offset in range(count)
            ],
        )


def _count_statements(store, statements):
    from sqlalchemy import event

    event.listen(
        store._database.engine,
        "before_cursor_execute",
        lambda _c, _cur, statement, _p, _ctx, _many: statements.append(statement),
    )


def judgement(expected_gb):
    phase = PhaseForecast(
        phase="update_actor",
        predicted_gb=50.0,
        expected_gb=expected_gb,
        sd_gb=4.0,
        largest_term="logits",
        at_limit_gb=70.0,
    )
    return Judgement(
        capacity_gb=80.0, phases=(phase,), probability_of_oom=0.01, phase="update_actor", measurements=3
    )


def test_a_forecast_comes_back_as_it_was_and_the_latest_counts(store, clock):
    trial_id = add_trial(store, clock)
    assert store.forecast(trial_id) is None
    store.add_forecast(trial_id, judgement(52.0))
    store.add_forecast(trial_id, judgement(55.0))
    assert store.forecast(trial_id) == judgement(55.0)


def test_a_forecast_after_the_end_is_refused(store, clock):
    trial_id = add_trial(store, clock)
    store.end_trial(
        trial_id, verdict=OOM, objective=None, accepted=False, pruned=True, at_utc=clock.utc_now()
    )
    with pytest.raises(ValueError, match="too late"):
        store.add_forecast(trial_id, judgement(52.0))
