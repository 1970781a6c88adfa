"""The finish over a synthetic verl: two configurations on fresh seeds, and a crash after any of its writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.clock import ManualClock
from autotune.controller.ladder_run import run_ladder
from autotune.errors import InputError, StoppedError
from autotune.records import (
    RUNGS,
    Arm,
    AttemptState,
    Event,
    FinishOutcome,
    MetricRow,
    StageName,
    StageResult,
    Value,
)
from autotune.store.store import Store
from tests.controller.conftest import (
    MICRO_BATCH,
    SEQUENCES,
    configuration,
    job_of,
    synthetic_verl,
    value_of,
    verl_overrides,
)

FINISH = [StageName.FINISH]
SURVIVOR: dict[str, Value] = {MICRO_BATCH: 16}
WINNER: dict[str, Value] = {**SURVIVOR, SEQUENCES: 64}


def with_noise(request: Any, tree: dict[str, Any]) -> list[Event]:
    """As the synthetic verl; speeds differ a little by seed, rewards not by anything that is random."""
    seed = value_of(tree, "data.seed")
    events = synthetic_verl(request, tree)
    validates = value_of(tree, "trainer.test_freq") > 0
    factor = 1.0 + 0.004 * (seed % 3)
    return [_noisy(event, factor, validates) if isinstance(event, MetricRow) else event for event in events]


def _noisy(row: MetricRow, factor: float, validates: bool) -> MetricRow:
    speed = row.values["perf/throughput"]
    assert speed is not None
    more = {"val-core/tiny/reward/mean@1": 0.4 + 0.02 * row.step} if validates else {}
    return replace(row, values={**row.values, "perf/throughput": speed * factor, **more})


def hand_on(store: Store, winner: dict[str, Value] = WINNER, survivor: dict[str, Value] = SURVIVOR) -> None:
    """Leaves what survive and speed leave when they have ended, without climbing them."""
    for stage, overrides in ((StageName.SURVIVE, survivor), (StageName.SPEED, winner)):
        result = StageResult(
            stage=stage,
            trials=0,
            accepted=(0,),
            acceptance_met=True,
            best=0,
            statement="",
            overrides=overrides,
        )
        store.end_stage(result, ManualClock().utc_now())


def confirmed_job(folder: Path, **finish: Any) -> Any:
    """Speed alone is searched; the finish has two looks."""
    stages = job_of(folder).model_dump(mode="json", exclude_none=True)["stages"]
    return job_of(
        folder,
        stages={name: stages[name] for name in ("survive", "speed")},
        finish={"repeats": 4, "repeats_after": 1, **finish},
        verl={"overrides": {**verl_overrides(), "data.seed": 90}},
    )


def test_the_survivor_stands_in_for_the_users_own(rig: Any, tmp_path: Path) -> None:
    with rig(with_noise, job=confirmed_job(tmp_path / "results")) as one:
        run_ladder(one.services, one.controller, (*RUNGS[:2], StageName.FINISH))
        verdict = one.store.finish_verdict()
        trials = one.store.trials(StageName.FINISH)
        speed = one.store.stage_results()[StageName.SPEED]
    assert verdict.outcome is FinishOutcome.BETTER
    assert verdict.reference is Arm.SURVIVOR
    assert verdict.own_failure == "oom_gpu_actor_update in update_actor"
    assert verdict.winner == speed.overrides
    gain = speed.best_figures.tokens_per_s_per_gpu / speed.baseline.tokens_per_s_per_gpu - 1.0
    assert verdict.comparisons[0].gain == pytest.approx(gain, abs=0.01)
    arms = [trial.candidate.origin for trial in trials]
    decided = ["user configuration", "survivor", "winner", "winner", "survivor", "survivor", "winner"]
    assert arms == [*decided, "winner", "survivor"]
    assert {trial.overrides["data.seed"] for trial in trials} == {91, 92, 93, 94}


def test_runs_are_cold_runs_of_the_configurations_themselves(rig: Any, tmp_path: Path) -> None:
    with rig(with_noise, job=confirmed_job(tmp_path / "results")) as one:
        hand_on(one.store)
        run_ladder(one.services, one.controller, FINISH)
        own, survivor = one.launcher.started[:2]
    tree = configuration(own.config_text)
    assert value_of(tree, MICRO_BATCH) == 64
    assert value_of(tree, "data.seed") == 91
    assert value_of(tree, "actor_rollout_ref.rollout.seed") == 91
    assert value_of(tree, "trainer.test_freq") == value_of(tree, "trainer.total_training_steps") == 4
    assert value_of(configuration(survivor.config_text), "data.seed") == 91


def test_the_users_own_configuration_is_the_reference_where_it_runs(rig: Any, tmp_path: Path) -> None:
    job = confirmed_job(tmp_path / "results")
    own = {**verl_overrides(), MICRO_BATCH: 8}
    job = job.model_copy(update={"verl": job.verl.model_copy(update={"overrides": own})})
    with rig(with_noise, job=job) as one:
        hand_on(one.store, survivor={})
        run_ladder(one.services, one.controller, FINISH)
        verdict = one.store.finish_verdict()
    assert verdict.reference is Arm.OWN
    assert verdict.own_failure == ""
    assert verdict.outcome is FinishOutcome.BETTER


def test_nothing_is_run_where_nothing_better_was_found(rig: Any, tmp_path: Path) -> None:
    with rig(with_noise, job=confirmed_job(tmp_path / "results")) as one:
        hand_on(one.store, winner={MICRO_BATCH: 64}, survivor={MICRO_BATCH: 64})
        run_ladder(one.services, one.controller, FINISH)
        verdict = one.store.finish_verdict()
        assert one.launcher.started == []
    assert verdict.outcome is FinishOutcome.NOT_BETTER
    assert "the user's own" in verdict.statement


def test_it_works_alone_and_needs_the_ladder(rig: Any, tmp_path: Path) -> None:
    job = confirmed_job(tmp_path / "results")
    with rig(with_noise, job=job) as one:
        with pytest.raises(InputError, match="--stage"):
            run_ladder(one.services, one.controller, FINISH)
        hand_on(one.store)
        run_ladder(one.services, one.controller, FINISH)
        first = one.store.finish_verdict()
    with rig(with_noise, job=job) as two:
        run_ladder(two.services, two.controller, FINISH)
        assert two.launcher.started == []
        assert two.store.finish_verdict() == first


def test_fewer_pairs_where_the_budget_has_no_room(rig: Any, tmp_path: Path) -> None:
    job = confirmed_job(tmp_path / "results", repeats=8)
    job = job.model_copy(update={"budget": job.budget.model_copy(update={"trials": 11})})
    with rig(with_noise, job=job) as one:
        hand_on(one.store)
        run_ladder(one.services, one.controller, FINISH)
        assert one.store.finish_plan().pairs == 5
        assert len(one.store.trials(StageName.FINISH)) <= 11


def test_a_budget_that_runs_out_leaves_it_resumable(rig: Any, tmp_path: Path) -> None:
    job = confirmed_job(tmp_path / "results")
    short = job.model_copy(update={"budget": job.budget.model_copy(update={"trials": 2})})
    with rig(with_noise, job=short) as one:
        hand_on(one.store)
        with pytest.raises(StoppedError, match=r"budget\.trials"):
            run_ladder(one.services, one.controller, FINISH)
        plan = one.store.finish_plan()
        assert one.store.finish_verdict() is None
    with rig(with_noise, job=job) as two:
        run_ladder(two.services, two.controller, FINISH)
        assert two.store.finish_plan() == plan
        assert two.store.finish_verdict().pairs_planned == plan.pairs == 2


class _Crash(BaseException):
    """Stands for kill -9: nothing after it is carried out."""


@pytest.mark.parametrize("writes", [*range(1, 10), 14, 21, 33])
def test_a_crash_after_any_write_comes_to_the_same_verdict(rig: Any, tmp_path: Path, writes: int) -> None:
    job = confirmed_job(tmp_path / "results")
    with rig(with_noise, job=job) as one:
        hand_on(one.store)
    left = writes
    methods = (
        "plan_finish",
        "add_trial",
        "start_attempt",
        "attempt_is_running",
        "add_events",
        "end_attempt",
        "end_trial",
        "end_finish",
    )
    with rig(with_noise, job=job) as two:
        for name in methods:
            real = getattr(two.store, name)

            def crashing(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
                nonlocal left
                answer = _real(*args, **kwargs)
                left -= 1
                if left == 0:
                    raise _Crash
                return answer

            setattr(two.store, name, crashing)
        with pytest.raises(_Crash):
            run_ladder(two.services, two.controller, FINISH)
        ended = [t for t in two.store.trials(StageName.FINISH) if t.ended_utc is not None]
        plan = two.store.finish_plan()
    with rig(with_noise, job=job) as three:
        run_ladder(three.services, three.controller, FINISH)
        trials = three.store.trials(StageName.FINISH)
        attempts = [attempt for trial in trials for attempt in three.store.attempts(trial.id)]
        verdict = three.store.finish_verdict()
        assert three.store.finish_plan() == plan
    assert trials[: len(ended)] == ended
    assert verdict.outcome is FinishOutcome.BETTER
    assert verdict.pairs == 3
    runs = [(trial.candidate.origin, trial.candidate.params["data.seed"]) for trial in trials]
    assert verdict.pairs_after == 1
    assert len(set(runs)) == len(runs) == 9
    assert all(attempt.state in (AttemptState.ENDED, AttemptState.LOST) for attempt in attempts)


def test_a_crash_after_the_verdict_keeps_it(rig: Any, tmp_path: Path) -> None:
    job = confirmed_job(tmp_path / "results")
    with rig(with_noise, job=job) as one:
        hand_on(one.store)
        real = one.store.end_finish

        def crashing(*args: Any, **kwargs: Any) -> Any:
            real(*args, **kwargs)
            raise _Crash

        one.store.end_finish = crashing
        with pytest.raises(_Crash):
            run_ladder(one.services, one.controller, FINISH)
        verdict = one.store.finish_verdict()
    with rig(with_noise, job=job) as two:
        run_ladder(two.services, two.controller, FINISH)
        assert two.launcher.started == []
        assert two.store.finish_verdict() == verdict
