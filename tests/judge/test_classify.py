import pytest

from autotune.judge.classify import classify
from autotune.judge.evidence import Evidence
from autotune.records import AttemptEnd, FailureGroup, GuardStop, LogEvidence, MemorySample
from tests.judge.recorded import console_lines, marks, read, rows


def line(
    kind: str, level: int, *, number: int = 5, at_s: float = 10.0, phase: str = "rollout", text: str = "x"
):
    return LogEvidence(line_number=number, text=text, kind=kind, phase=phase, level=level, at_s=at_s)


def stop(kind: str, at_s: float = 20.0) -> GuardStop:
    return GuardStop(kind=kind, phase="rollout", reason="no sign of life for 30 s", at_s=at_s)


def ended(exit_code: int | None = 1, **fields) -> AttemptEnd:
    return AttemptEnd(at_s=30.0, exit_code=exit_code, asked=fields.pop("asked", False), **fields)


def classified(*events):
    return classify(Evidence.from_events(events))


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (
            [line("nccl_error", 8, number=1), line("oom_gpu_log_prob", 4, number=9), ended()],
            "oom_gpu_log_prob",
        ),
        ([line("ray_init", 7, number=9), line("network", 7, number=3), ended()], "network"),
        ([line("ray_actor_death", 9), ended()], "ray_actor_death"),
        ([line("unknown", 10), ended()], "unknown"),
        ([ended()], "unknown"),
        ([ended(exit_code=0)], "unknown"),
        ([ended(exit_code=None, lost=True)], "lost"),
        ([line("oom_gpu_log_prob", 4), ended(exit_code=None, lost=True)], "oom_gpu_log_prob"),
        ([stop("hang_rollout")], "hang_rollout"),
        ([line("oom_gpu_rollout_wakeup", 4), stop("hang_rollout")], "oom_gpu_rollout_wakeup"),
        ([stop("hang_rollout"), line("nccl_error", 8, at_s=25.0), ended()], "hang_rollout"),
        ([line("ray_actor_death", 9), stop("hang_rollout")], "hang_rollout"),
        ([line("disk_full", 9), stop("wall_limit")], "wall_limit"),
        ([line("config_validation", 1), stop("nan_inf")], "nan_inf"),
    ],
)
def test_the_best_evidence_decides(events, kind):
    assert classified(*events).kind == kind


@pytest.mark.parametrize("events", [[], rows(2), [ended(asked=True)]])
def test_nothing_failed(events):
    assert classified(*events) is None


def test_an_unattributed_allocation_failure_takes_the_phase_it_happened_in():
    failure = classified(
        *marks("config", "ready", "rollout", "update_actor"), line("oom_unattributed", 4), ended()
    )
    assert (failure.kind, failure.phase) == ("oom_gpu_actor_update", "update_actor")


def test_memory_held_by_others_is_not_the_candidates_fault():
    text = "Free memory on device cuda:1 (19.77/80.00 GiB) is less than desired GPU memory utilization"
    found = line("oom_gpu_rollout_init", 3, text=text)

    def own(used_gb):
        return MemorySample(at_s=1.0, phase="model_load", device="gpu:0", used_gb=used_gb, capacity_gb=80.0)

    assert classified(found, ended()).group is FailureGroup.CANDIDATE
    assert classified(own(59.0), found, ended()).group is FailureGroup.CANDIDATE
    shared = classified(own(10.0), found, ended())
    assert (shared.kind, shared.group) == ("shared_gpu", FailureGroup.INFRASTRUCTURE)


def test_the_failure_carries_its_line_and_a_sentence():
    failure = classified(*read(console_lines("oom_log_prob_cpu")), ended())
    assert failure.kind == "oom_gpu_log_prob"
    assert "DefaultCPUAllocator" in failure.line
    assert console_lines("oom_log_prob_cpu")[failure.line_number - 1].strip() == failure.line
    assert failure.cause == "Device memory ran out in a log-probability forward pass (old_log_prob)."


def test_a_guards_figures_are_in_the_cause():
    assert classified(stop("hang_rollout")).cause == (
        "Generation stopped making progress. No sign of life for 30 s."
    )


def test_an_unknown_end_shows_the_last_exception_and_what_was_reached():
    failure = classified(*rows(2), line("unknown", 10, text="KeyError: 'x'"), ended(exit_code=1))
    assert (failure.line, failure.group) == ("KeyError: 'x'", FailureGroup.INFRASTRUCTURE)
    assert "exit code 1, 2 steps done" in failure.cause


def test_an_error_that_further_steps_outlived_does_not_explain_a_later_death():
    survived, death = line("reward_function", 7, at_s=10.0), line("ray_actor_death", 9, at_s=90.0)
    assert classified(survived, *rows(2), death, ended()).kind == "ray_actor_death"
    assert classified(*rows(2, start_s=1.0), survived, death, ended()).kind == "reward_function"
