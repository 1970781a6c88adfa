"""Each guard holds at its limit and not before."""

import pytest

from autotune.job.model import GuardSection
from autotune.judge.evidence import Evidence
from autotune.judge.guards import SPARE_S, check, silence_limit_s, spare_s
from autotune.records import AttemptEnd, GuardStop, LogEvidence, MemorySample, PhaseMark, Progress
from tests.judge.recorded import console_lines, marks, read, rows

NOW_S = 100.0


def stop_of(events, now_s: float = NOW_S, **limits):
    return check(Evidence.from_events(events), GuardSection(**limits), now_s)


def kind_of(events, now_s: float = NOW_S, **limits):
    stop = stop_of(events, now_s, **limits)
    return stop.kind if stop else None


@pytest.mark.parametrize(
    ("columns", "limits", "kind"),
    [
        ({}, {}, None),
        ({"reward": [0.1, 0.2, None]}, {}, "nan_inf"),
        ({"reward": [0.1, None, 0.3]}, {"nan_reward_steps": 2}, None),
        ({"reward": [0.1, None, None]}, {"nan_reward_steps": 2}, "nan_inf"),
        ({"gradient": [1.0, None, 1.0]}, {}, None),
        ({"gradient": [None, None, 1.0]}, {}, "nan_inf"),
        ({"kl": [0.1, 0.6, 0.7]}, {"kl_limit": 0.5}, "kl_drift"),
        ({"kl": [0.6, 0.1, 0.7]}, {"kl_limit": 0.5}, None),
        ({"kl": [0.1, 0.5, 0.5]}, {"kl_limit": 0.5}, None),
        ({"kl": [0.1, None, None]}, {"kl_limit": 0.5}, "kl_drift"),
        ({"kl": [9.0, 9.0, 9.0]}, {}, None),
        ({"kl": 9.0}, {"kl_limit": 0.5, "kl_metric": "actor/reward_kl_penalty"}, None),
        ({"entropy": [1.0, 2.0, 9.0]}, {"entropy_limit": 5.0}, "entropy_explosion"),
        ({"entropy": [1.0, 2.0, 9.0]}, {}, None),
        ({"best": 0.0}, {"zero_reward_steps": 3}, "reward_zero"),
        ({"best": [1.0, 0.0, 0.0]}, {"zero_reward_steps": 2}, "reward_collapse"),
        ({"best": 0.0, "worst": -1.0}, {"zero_reward_steps": 3}, None),
        ({"best": 0.0}, {}, None),
        ({"best": 0.0}, {"zero_reward_steps": 4}, None),
    ],
)
def test_figures(columns, limits, kind):
    assert kind_of(rows(3, **columns), 70.0, **limits) == kind


def test_the_reason_names_figure_and_limit():
    stop = stop_of(rows(4, kl=[0.1, 0.6, 0.7, 0.8]), 80.0, kl_limit=0.5)
    assert stop.reason == "actor/kl_loss is 0.7 in steps 2 to 3 (limit 0.5)"


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        ("launch", "hang_init"),
        ("model_load", "hang_init"),
        ("rollout_start", "hang_vllm_init"),
        ("ready", "hang_weight_sync"),
        ("weight_sync", "hang_weight_sync"),
        ("rollout", "hang_rollout"),
        ("reward", "hang_reward"),
        ("ref_log_prob", "hang_log_prob"),
        ("update_actor", "hang_update"),
        ("checkpoint", "hang_checkpoint"),
        ("validation", "hang_validation"),
    ],
)
def test_silence_is_named_after_its_phase(phase, kind):
    events = [PhaseMark(phase=phase, at_s=10.0)]
    assert kind_of(events, 69.0, start_silence_s=60, step_silence_s=60) is None
    assert kind_of(events, 70.0, start_silence_s=60, step_silence_s=60) == kind


def test_console_output_puts_the_silence_off():
    events = [PhaseMark(phase="model_load", at_s=10.0), Progress(at_s=50.0, lines=1)]
    assert kind_of(events, 109.0, start_silence_s=60) is None
    assert kind_of(events, 110.0, start_silence_s=60) == "hang_init"


@pytest.mark.parametrize(
    ("phases", "steps", "every_s", "limit_s"),
    [
        (("model_load",), 0, 3.0, 600.0),
        (("rollout",), 0, 3.0, 900.0),
        (("rollout",), 1, 3.0, 900.0),
        (("rollout",), 2, 3.0, 30.0),
        (("rollout",), 2, 8.0, 80.0),
        (("rollout",), 2, 500.0, 900.0),
    ],
)
def test_silence_limits_learn_from_the_attempts_own_steps(phases, steps, every_s, limit_s):
    evidence = Evidence.from_events([*marks(*phases), *rows(steps, every_s=every_s)])
    assert silence_limit_s(evidence, GuardSection()) == limit_s


def test_the_recorded_weight_sync_hang_ends_15_s_after_its_error():
    # The recording tells no times: all lines at once, then the silence.
    lines = [line for line in console_lines("hang_weight_sync") if "SIGTERM" not in line]
    events = list(read(lines, s_per_line=0.0))
    assert kind_of(events, 14.9) is None
    stop = stop_of(events, 15.0)
    assert (stop.kind, stop.phase) == ("hang_weight_sync", "weight_sync")
    assert "receive_weights" in stop.reason


def evidence_line(kind: str, at_s: float = 90.0) -> LogEvidence:
    return LogEvidence(line_number=9, text="x", kind=kind, phase="rollout", level=4, at_s=at_s)


def test_a_fatal_line_is_forgiven_when_another_step_was_made():
    events = [evidence_line("rollout_error", 61.0), *rows(1), PhaseMark(phase="rollout", at_s=64.0)]
    assert kind_of(events, 90.0) is None
    assert kind_of([*events, evidence_line("rollout_error")], 105.0) == "rollout_error"


def test_a_new_phase_gives_the_fatal_line_more_time():
    events = [evidence_line("oom_gpu_rollout_runtime"), PhaseMark(phase="update_actor", at_s=95.0)]
    assert kind_of(events, 109.0) is None
    assert kind_of(events, 110.0) == "oom_gpu_rollout_runtime"


@pytest.mark.parametrize("kind", ["reward_function", "config_validation", "disk_full", "unknown"])
def test_lines_that_verl_may_survive_end_nothing(kind):
    assert kind_of([*marks("rollout"), evidence_line(kind)], 200.0) is None


def test_the_wall_limit():
    events = [PhaseMark(phase="rollout", at_s=59.0)]
    assert kind_of(events, 59.9, wall_limit_s=60) is None
    assert kind_of(events, 60.0, wall_limit_s=60) == "wall_limit"


def leaking(per_step_gb: float, steps: int):
    events = []
    for index, row in enumerate(rows(steps)):
        for offset_s, used_gb in ((2.0, 60.0), (1.0, 10.0 + per_step_gb * index)):
            events.append(
                MemorySample(
                    at_s=row.at_s - offset_s,
                    phase="rollout",
                    device="gpu:0",
                    used_gb=used_gb,
                    capacity_gb=80.0,
                )
            )
        events.append(row)
    return events


@pytest.mark.parametrize(
    ("per_step_gb", "steps", "kind"),
    [(2.0, 6, "oom_gpu_leak"), (2.0, 5, None), (0.5, 6, None), (-2.0, 6, None)],
)
def test_memory_that_grows_from_step_to_step(per_step_gb, steps, kind):
    assert kind_of(leaking(per_step_gb, steps), 80.0, memory_growth_frac_per_step=0.01) == kind
    assert kind_of(leaking(per_step_gb, steps), 80.0) is None


def test_an_ended_attempt_needs_no_guard_and_a_decision_is_told_again():
    events = rows(2, reward=None)
    stop = stop_of(events, 70.0)
    assert stop.kind == "nan_inf"
    assert stop_of([*events, stop], 500.0) is stop
    assert stop_of([*events, AttemptEnd(at_s=71.0, exit_code=1, asked=False)], 500.0) is None


@pytest.mark.parametrize(
    ("kind", "spared"),
    [
        ("kl_drift", True),
        ("nan_inf", True),
        ("hang_rollout", False),
        ("oom_gpu_leak", False),
        ("wall_limit", False),
        ("slower_than_best", True),
    ],
)
def test_only_a_process_that_works_is_spared(kind, spared):
    """Figures come from between two steps; a process that is silent or full is not to be trusted again."""
    evidence = Evidence.from_events(rows(2, **{"timing_s/step": [3.0, 5.0]}))
    stop = GuardStop(kind=kind, phase="update_actor", reason="", at_s=9.0)
    assert spare_s(stop, evidence) == (10.0 + SPARE_S if spared else None)
