"""Whole ladders over a synthetic verl, and what a crash or a stop leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.errors import AutotuneError, InputError, NothingFeasibleError, StoppedError, UserCodeError
from autotune.job.paths import AttemptPaths
from autotune.records import (
    RUNGS,
    AttemptEnd,
    AttemptRole,
    AttemptState,
    Event,
    LogEvidence,
    MetricRow,
    Outcome,
    PhaseMark,
    StageName,
)
from autotune.trial.supervisor import write_end
from tests.controller.conftest import (
    LR,
    MICRO_BATCH,
    AgreeableValidator,
    Crash,
    crash_after,
    job_of,
    synthetic_verl,
    value_of,
)

STAGES = RUNGS


def test_three_stages_end_with_a_better_configuration(rig: Any) -> None:
    with rig() as one:
        results = run_ladder(one.services, one.controller, STAGES)
        survive = one.store.trials(StageName.SURVIVE)
    assert [t.candidate.params[MICRO_BATCH] for t in survive][:2] == [64, 32]
    assert survive[0].verdict.failure.kind == "oom_gpu_actor_update"
    assert survive[0].pruned
    assert results[StageName.SURVIVE].acceptance_met
    assert results[StageName.SPEED].acceptance_met
    assert results[StageName.SPEED].best_figures.tokens_per_s_per_gpu >= 130.0
    assert set(results[StageName.QUALITY].overrides) >= {MICRO_BATCH, LR}


def test_a_survivor_has_passed_the_worst_case(rig: Any) -> None:
    with rig() as one:
        run_ladder(one.services, one.controller, [StageName.SURVIVE])
        accepted = next(t for t in one.store.trials(StageName.SURVIVE) if t.accepted)
        roles = [attempt.role for attempt in one.store.attempts(accepted.id)]
        certificate = one.launcher.started[-1]
    assert roles == [AttemptRole.MEASURE, AttemptRole.CERTIFICATE]
    assert "ignore_eos: true" in certificate.config_text
    assert "longest_prompts.parquet" in certificate.config_text


def test_optuna_knows_what_the_store_knows(rig: Any) -> None:
    with rig() as one:
        run_ladder(one.services, one.controller, STAGES)
        for stage in STAGES:
            study = optuna.load_study(
                study_name=f"played {STAGES.index(stage) + 1} {stage.value}", storage=one.store.url
            )
            for trial, stored in zip(study.trials, one.store.trials(stage), strict=True):
                assert trial.params == dict(stored.candidate.params)
                assert trial.user_attrs["outcome"] == stored.verdict.outcome.value
        failed = optuna.load_study(study_name="played 1 survive", storage=one.store.url).trials[0]
    assert failed.state is optuna.trial.TrialState.PRUNED
    assert failed.user_attrs["kind"] == "oom_gpu_actor_update"
    assert failed.constraints["memory_update_actor"] > 0


def test_the_same_command_after_the_end_launches_nothing(rig: Any) -> None:
    with rig() as one:
        before = run_ladder(one.services, one.controller, STAGES)
    with rig() as two:
        after = run_ladder(two.services, two.controller, STAGES)
        assert two.launcher.started == []
    assert after == before


def test_two_slots_are_both_used(rig: Any) -> None:
    busiest = 0

    def count(request: Any, tree: dict[str, Any]) -> list[Event]:
        nonlocal busiest
        busiest = max(busiest, 2 - launcher.slots() + 1)
        return synthetic_verl(request, tree)

    with rig(count, limit=2) as one:
        launcher = one.launcher
        run_ladder(one.services, one.controller, STAGES)
    assert busiest == 2


def test_stop_ends_the_running_trial_and_leaves_it_open(rig: Any) -> None:
    with rig() as one:
        script = one.launcher.script

        def stop_at_start(request: Any, tree: dict[str, Any]) -> list[Event]:
            one.controller.stop("SIGINT")
            return script(request, tree)

        one.launcher.script = stop_at_start
        with pytest.raises(StoppedError):
            run_ladder(one.services, one.controller, STAGES)
        (trial,) = one.store.trials()
        assert trial.verdict is None
        (attempt,) = one.store.attempts(trial.id)
        assert attempt.verdict.outcome is Outcome.STOPPED
    with rig() as two:
        run_ladder(two.services, two.controller, STAGES)
        again = two.store.attempts(trial.id)
        numbers = [t.number for t in two.store.trials(StageName.SURVIVE)]
    assert [a.index for a in again] == [0, 1]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("writes", range(1, 30, 2))
def test_a_crash_after_any_write_loses_nothing_and_repeats_nothing(rig: Any, writes: int) -> None:
    with rig() as one:
        crash_after(one.store, writes)
        with pytest.raises(Crash):
            run_ladder(one.services, one.controller, [StageName.SURVIVE])
        ended = [t for t in one.store.trials() if t.ended_utc is not None]
    with rig() as two:
        run_ladder(two.services, two.controller, [StageName.SURVIVE])
        trials = two.store.trials()
        attempts = {t.number: two.store.attempts(t.id) for t in trials}
        study = optuna.load_study(study_name="played 1 survive", storage=two.store.url)
    assert trials[: len(ended)] == ended
    assert all(t.verdict is not None for t in trials)
    assert len({tuple(t.candidate.params.items()) for t in trials}) == len(trials)
    for of_trial in attempts.values():
        assert all(a.state in (AttemptState.ENDED, AttemptState.LOST) for a in of_trial)
    assert all(t.state.is_finished() for t in study.trials)


def test_the_budget_stops_the_job_and_counts_what_an_earlier_run_spent(rig: Any, tmp_path: Any) -> None:
    job = job_of(tmp_path / "results", budget={"gpu_hours": 15 / 3600})
    with rig(job=job) as one, pytest.raises(StoppedError, match=r"budget\.gpu_hours"):
        run_ladder(one.services, one.controller, STAGES)
    with rig(job=job) as two, pytest.raises(StoppedError, match=r"budget\.gpu_hours"):
        run_ladder(two.services, two.controller, STAGES)
    assert two.launcher.started == []


def _ends_with(line: LogEvidence) -> Any:
    def script(request: Any, tree: dict[str, Any]) -> list[Event]:
        return [
            PhaseMark(phase="rollout", at_s=1.0),
            line,
            AttemptEnd(at_s=2.0, exit_code=1, asked=False),
        ]

    return script


def _line(kind: str) -> LogEvidence:
    return LogEvidence(line_number=3, text=f"a line of {kind}", kind=kind, phase="rollout", level=6, at_s=1.0)


def test_the_users_own_fault_stops_the_study_at_once(rig: Any) -> None:
    with rig(_ends_with(_line("reward_function"))) as one:
        with pytest.raises(UserCodeError) as caught:
            run_ladder(one.services, one.controller, STAGES)
        assert len(one.launcher.started) == 1
    assert caught.value.faults[0].found == "a line of reward_function"
    with rig() as two:  # mended: the user's configuration gets its turn again
        run_ladder(two.services, two.controller, [StageName.SURVIVE])
        assert two.store.trials()[1].candidate.origin == "user configuration"


def test_the_machines_fault_is_retried_and_never_taught(rig: Any) -> None:
    faults = 0

    def flaky(request: Any, tree: dict[str, Any]) -> list[Event]:
        nonlocal faults
        faults += 1
        if faults == 1:
            return _ends_with(_line("port_conflict"))(request, tree)
        return synthetic_verl(request, tree)

    with rig(flaky) as one:
        run_ladder(one.services, one.controller, [StageName.SURVIVE])
        attempts = one.store.attempts(one.store.trials()[0].id)
    assert [a.verdict.outcome for a in attempts] == [Outcome.INFRASTRUCTURE, Outcome.FAILED]


def test_two_trials_in_a_row_ended_by_the_machine_stop_the_job(rig: Any) -> None:
    with rig(_ends_with(_line("cuda_fault"))) as one:
        with pytest.raises(AutotuneError, match="in a row"):
            run_ladder(one.services, one.controller, STAGES)
        assert len(one.launcher.started) == 4


def test_what_verl_refuses_is_a_trial_that_cost_nothing(rig: Any) -> None:
    def too_big(tree: dict[str, Any]) -> list[str]:
        return ["micro batch refused"] if value_of(tree, MICRO_BATCH) == 64 else []

    with rig(validator=AgreeableValidator(too_big)) as one:
        run_ladder(one.services, one.controller, [StageName.SURVIVE])
        first = one.store.trials()[0]
        assert one.store.attempts(first.id) == []
    assert first.verdict.outcome is Outcome.REJECTED
    assert "micro batch refused" in first.verdict.failure.cause


def test_nothing_feasible_is_an_error_of_its_own(rig: Any) -> None:
    def never_fits(request: Any, tree: dict[str, Any]) -> list[Event]:
        return _ends_with(replace(_line("oom_gpu_actor_update"), phase="update_actor", level=4))(
            request, tree
        )

    with rig(never_fits) as one, pytest.raises(NothingFeasibleError):
        run_ladder(one.services, one.controller, STAGES)


def test_a_later_stage_needs_the_one_before(rig: Any) -> None:
    with rig() as one, pytest.raises(InputError, match="survive"):
        run_ladder(one.services, one.controller, [StageName.SPEED])


def drifting(request: Any, tree: dict[str, Any]) -> list[Event]:
    """As the synthetic verl, with a KL far over every limit."""
    events = synthetic_verl(request, tree)
    return [
        replace(event, values={**event.values, "actor/kl_loss": 9.0})
        if isinstance(event, MetricRow)
        else event
        for event in events
    ]


def test_a_guard_ends_a_drifting_trial(rig: Any) -> None:
    with rig(drifting) as one, pytest.raises(NothingFeasibleError):
        run_ladder(one.services, one.controller, STAGES)
    with rig() as two:
        kinds = {t.verdict.failure.kind for t in two.store.trials() if t.verdict.failure}
    assert "kl_drift" in kinds


def test_a_guards_decision_outlives_a_crash(rig: Any) -> None:
    with rig(drifting) as one:

        def crash(attempt_id: str, reason: str, spare_s: float | None = None) -> None:
            raise Crash

        one.launcher.end = crash
        with pytest.raises(Crash):
            run_ladder(one.services, one.controller, [StageName.SURVIVE])
        (attempt,) = one.store.running_attempts()
    # Meanwhile the supervisor, whose runner is gone with the controller, was asked and has ended verl.
    ended = AttemptEnd(at_s=5.0, exit_code=1, asked=True)
    write_end(AttemptPaths(Path(attempt.folder)), ended)
    with rig() as two:
        run_ladder(two.services, two.controller, [StageName.SURVIVE])
        (trial,) = [t for t in two.store.trials() if t.id == attempt.trial_id]
        assert [a.attempt_id for a in two.store.attempts(trial.id)] == [attempt.attempt_id]
    assert trial.verdict.failure.kind == "kl_drift"
