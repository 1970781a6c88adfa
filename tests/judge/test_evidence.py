from autotune.judge.evidence import Evidence
from autotune.records import GuardStop, LogEvidence, MemorySample, MetricRow, PhaseMark, Progress
from tests.judge.recorded import marks, rows


def sample(
    at_s: float, used_gb: float, phase: str = "rollout", device: str = "gpu:0", capacity_gb: float = 80.0
):
    return MemorySample(at_s=at_s, phase=phase, device=device, used_gb=used_gb, capacity_gb=capacity_gb)


def line(level: int, number: int) -> LogEvidence:
    return LogEvidence(line_number=number, text="x", kind="unknown", phase="", level=level, at_s=0.0)


def test_lines_are_kept_best_first_and_bounded():
    evidence = Evidence.from_events(
        [line(9, 1), line(4, 30), line(4, 20), *(line(10, n) for n in range(100, 300))]
    )
    assert [(found.level, found.line_number) for found in evidence.log[:3]] == [(4, 20), (4, 30), (9, 1)]
    assert len(evidence.log) == 50


def test_the_validation_before_training_is_no_step():
    evidence = Evidence.from_events([MetricRow(step=0, at_s=5.0, values={}), *rows(2)])
    assert evidence.steps == 2


def test_peaks_by_device_and_phase():
    events = [sample(1, 10), sample(2, 30), sample(3, 20), sample(4, 40, "update_actor", "gpu:1")]
    evidence = Evidence.from_events(events)
    assert evidence.peaks_gb == {("gpu:0", "rollout"): 30, ("gpu:1", "update_actor"): 40}
    assert evidence.peak_frac_by_phase() == {"rollout": 30 / 80, "update_actor": 0.5}


def test_an_unknown_capacity_gives_no_share():
    evidence = Evidence.from_events([sample(1, 10, capacity_gb=0.0)])
    assert evidence.peak_frac_by_phase() == {}


def test_signs_of_life():
    evidence = Evidence.from_events(
        [PhaseMark(phase="rollout", at_s=3.0), Progress(at_s=9.0, lines=1), sample(20, 1)]
    )
    assert (evidence.last_sign_s, evidence.last_step_sign_s) == (9.0, 3.0)


def test_the_phase_at_a_time_and_late_milestones():
    evidence = Evidence.from_events(
        [*marks("config", "rollout", "update_actor"), PhaseMark(phase="ready", at_s=9)]
    )
    assert [evidence.phase_at(at_s) for at_s in (0.5, 1.5, 20.0)] == ["config", "rollout", "update_actor"]
    assert evidence.phase == "update_actor"


def test_the_first_step_begins_with_its_phase_not_with_the_first_weight_sync():
    assert Evidence.from_events(marks("ready", "weight_sync", "rollout")).first_step_s == 2.0


def test_the_first_decision_stands():
    first, second = (GuardStop(kind=kind, phase="", reason="", at_s=1.0) for kind in ("nan_inf", "kl_drift"))
    assert Evidence.from_events([first, second]).stop is first
