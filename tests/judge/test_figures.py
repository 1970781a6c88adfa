import pytest

from autotune.judge.evidence import Evidence
from autotune.judge.figures import figures
from autotune.records import MemorySample
from tests.judge.recorded import marks, metric_rows, rows


def figures_of(events, steps_asked=3, warmup_steps=1):
    evidence = Evidence.from_events(events)
    return figures(evidence, steps_asked=steps_asked, warmup_steps=warmup_steps, kl_metric="actor/kl_loss")


def test_the_recorded_run():
    measured = figures_of(metric_rows("grpo_tiny_40_steps"), steps_asked=40)
    assert (measured.steps, measured.steps_asked) == (40, 40)
    assert measured.tokens_per_s_per_gpu == pytest.approx(840, rel=0.2)
    assert measured.step_s == pytest.approx(3.1, rel=0.2)
    assert measured.reward > 0.9
    assert measured.kl > 1.0
    assert measured.reward_std < 0.2
    assert measured.peak_memory_frac is None


def test_nothing_measured():
    measured = figures_of([])
    assert measured.steps == 0
    assert [measured.reward, measured.kl, measured.step_s, measured.start_s, measured.peak_memory_gb] == [
        None
    ] * 5


def test_warm_up_steps_are_left_out_of_speed_but_not_of_learning():
    measured = figures_of(rows(3, throughput=[10.0, 1000.0, 1100.0], reward=[0.0, 0.3, 0.6]))
    assert measured.tokens_per_s_per_gpu == 1050.0
    assert measured.reward == pytest.approx(0.3)


def test_steps_without_a_number_are_left_out():
    measured = figures_of(rows(4, reward=[0.1, 0.4, None, 0.6], kl=[0.0, None, 0.2, 0.4]))
    assert measured.reward == pytest.approx(0.5)
    assert measured.kl == pytest.approx(0.3)


def test_peak_memory_over_devices_and_phases():
    def sample(device, phase, used_gb):
        return MemorySample(at_s=1.0, phase=phase, device=device, used_gb=used_gb, capacity_gb=80.0)

    events = [
        sample("gpu:0", "rollout", 60.0),
        sample("gpu:1", "rollout", 64.0),
        sample("gpu:1", "update_actor", 40),
    ]
    measured = figures_of(events)
    assert (measured.peak_memory_frac, measured.peak_memory_phase, measured.peak_memory_gb) == (
        0.8,
        "rollout",
        64.0,
    )
    assert measured.peak_by_phase_frac == {"rollout": 0.8, "update_actor": 0.5}


def test_the_start_ends_with_the_first_step():
    assert figures_of(marks("config", "ready", "rollout")).start_s == 2.0
    assert figures_of(rows(1, start_s=60.0, every_s=3.0)).start_s == 60.0


def test_figures_of_learning_besides_reward_and_kl():
    columns = {
        "entropy": [3.0, 2.0, 1.0, 0.0],
        "autotune/groups_without_variance_frac": [0.0, 0.25, 0.5, 0.75],
        "training/rollout_probs_diff_mean": [9.0, 0.001, 0.002, 0.003],
        "val-core/gsm8k/acc/mean@1": [None, 0.3, None, 0.5],
        "response_length/clip_ratio": [1.0, 0.1, 0.2, 0.3],
    }
    measured = figures_of(rows(4, **columns))
    assert measured.entropy == pytest.approx(1.0)
    assert measured.no_variance_frac == pytest.approx(0.5)
    assert measured.probability_gap == pytest.approx(0.002)
    assert measured.validation_reward == pytest.approx(0.4)
    assert measured.truncated_frac == pytest.approx(0.2)


def test_without_a_number_the_warm_up_is_found_in_the_step_times():
    made = rows(6, throughput=[10.0, 20.0, 1000.0, 1100.0, 1000.0, 1050.0])
    for row, time_s in zip(made, [40.0, 20.0, 3.0, 3.1, 3.0, 3.1], strict=True):
        row.values["perf/time_per_step"] = time_s
    measured = figures_of(made, steps_asked=6, warmup_steps=None)
    assert (measured.warmup_steps, measured.tokens_per_s_per_gpu) == (2, 1025.0)
    assert measured.tokens_per_s_half_width > 0.0


def test_without_step_times_the_first_step_is_left_out():
    made = rows(3, throughput=[10.0, 1000.0, 1000.0])
    for row in made:
        del row.values["perf/time_per_step"]
    assert figures_of(made, warmup_steps=None).warmup_steps == 1
