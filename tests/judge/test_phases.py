import pytest

from autotune.judge import phases
from autotune.records import PhaseMark
from tests.judge.recorded import console_lines, read


def test_a_recorded_run_passes_the_start_milestones_in_order():
    entered = [
        event.phase for event in read(console_lines("grpo_tiny_40_steps")) if isinstance(event, PhaseMark)
    ]
    assert entered == ["config", "ray_start", "model_load", "rollout_start", "ready", "rollout", "done"]


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("[validate_config] All configuration checks passed successfully!", "config"),
        ("INFO:2026-12-01 05:38:30,256:actor and ref model engine initialized", "rollout_start"),
        ("Training Progress:   0%|          | 0/40 [00:00<?, ?it/s]", "rollout"),
        ("Training Progress: 100%|####| 40/40 [02:25<00:00,  3.26s/it]", "done"),
        ("Training Progress: 100%|####| 399/400 [02:25<00:00,  3.26s/it]", "rollout"),
        ("step:1 - global_seqlen/min:3027.0", None),
    ],
)
def test_milestones(line, phase):
    assert phases.milestone(line) == phase


@pytest.mark.parametrize(
    ("timer", "phase"),
    [
        ("gen", "rollout"),
        ("ref", "ref_log_prob"),
        ("update_weights", "weight_sync"),
        ("step", None),
        ("new", None),
    ],
)
def test_timers(timer, phase):
    assert phases.from_timer(timer) == phase


@pytest.mark.parametrize(
    ("call", "phase"),
    [
        ("actor_rollout_ref_compute_log_prob", "old_log_prob"),
        ("actor_rollout_ref_compute_ref_log_prob", "ref_log_prob"),
        ("ref_compute_ref_log_prob", "ref_log_prob"),
        ("actor_rollout_update_actor", "update_actor"),
        ("critic_train_mini_batch", "update_critic"),
        ("critic_infer_batch", "values"),
        ("critic_update_critic", "update_critic"),
        ("actor_rollout_ref_update_weights", "weight_sync"),
        ("forward", None),
    ],
)
def test_calls(call, phase):
    assert phases.from_call(call) == phase


def test_every_phase_that_something_names_is_a_phase():
    named = {*phases._CALLS.values(), *phases._TIMERS.values(), *(phase for _, phase in phases._MILESTONES)}
    assert named <= set(phases.PHASES)
