import itertools
import math

import pytest

from autotune.forecast.correction import CAPPED_CPU_WORKER, Correction, Estimate, MeasuredPeak
from tests.forecast.recorded import CAPACITY_GB, attempts


def test_before_any_trial_the_forecast_stands_and_is_uncertain():
    found = Correction(80.0).estimate("update_actor", 60.0)
    assert found.mean_gb == 60.0
    assert 8.0 < found.sd_gb < 12.0


def test_a_constant_error_is_learned_and_uncertainty_shrinks():
    learned = Correction(80.0).learn(
        MeasuredPeak(phase="update_actor", predicted_gb=gb, measured_gb=1.1 * gb + 2.0) for gb in (30, 45, 60)
    )
    found = learned.estimate("update_actor", 52.0)
    assert found.mean_gb == pytest.approx(1.1 * 52.0 + 2.0, abs=0.5)
    assert found.sd_gb < 1.5
    assert learned.measurements == 3


def test_phases_learn_apart():
    learned = Correction(80.0).learn(
        [MeasuredPeak(phase="update_actor", predicted_gb=40.0, measured_gb=50.0)]
    )
    assert learned.estimate("old_log_prob", 40.0) == Correction(80.0).estimate("old_log_prob", 40.0)


def test_the_order_of_measurements_does_not_matter():
    peaks = [
        MeasuredPeak(phase="p", predicted_gb=gb, measured_gb=measured)
        for gb, measured in ((20.0, 25.0), (50.0, 52.0), (70.0, 80.0))
    ]
    found = [Correction(80.0).learn(order).estimate("p", 60.0) for order in itertools.permutations(peaks)]
    assert all(one.mean_gb == pytest.approx(found[0].mean_gb) for one in found)


def test_far_from_what_was_measured_it_is_less_sure():
    learned = Correction(80.0).learn([MeasuredPeak(phase="p", predicted_gb=20.0, measured_gb=22.0)] * 3)
    assert learned.estimate("p", 75.0).sd_gb > learned.estimate("p", 22.0).sd_gb


def _bound(predicted_gb, bound_gb):
    return MeasuredPeak(phase="p", predicted_gb=predicted_gb, measured_gb=bound_gb, is_bound=True)


def test_running_out_of_memory_raises_what_was_too_low_and_makes_it_surer():
    before = Correction(80.0).estimate("p", 60.0)
    after = Correction(80.0).learn([_bound(60.0, 78.8)]).estimate("p", 60.0)
    assert after.mean_gb > 78.8
    assert after.sd_gb < before.sd_gb


def test_running_out_of_memory_far_over_the_device_was_expected_and_teaches_nothing():
    before = Correction(80.0).estimate("p", 200.0)
    after = Correction(80.0).learn([_bound(200.0, 78.8)]).estimate("p", 200.0)
    assert after.mean_gb == pytest.approx(before.mean_gb, rel=1e-3)


def test_a_bound_has_the_moments_of_the_truncated_normal():
    """Against a sum over the density of (offset + noise) above the bound."""
    correction = Correction(80.0).learn([_bound(0.0, 6.0)])
    noise, prior = 0.8, 4.0  # GB: one and five hundredths of the device
    sd = math.hypot(noise, prior)
    grid = [6.0 + 0.001 * step for step in range(40000)]
    weights = [math.exp(-0.5 * (value / sd) ** 2) for value in grid]
    mean = sum(w * v for w, v in zip(weights, grid, strict=True)) / sum(weights)
    expected = mean * prior**2 / sd**2
    assert correction.estimate("p", 0.0).mean_gb == pytest.approx(expected, rel=1e-3)


def test_a_bound_that_nothing_explains_stays_finite():
    found = Correction(80.0).learn([_bound(1.0, 500.0)]).estimate("p", 1.0)
    assert math.isfinite(found.mean_gb)
    assert found.mean_gb > 400.0


def test_probability_over():
    assert Estimate(mean_gb=80.0, sd_gb=4.0).probability_over(80.0) == pytest.approx(0.5)
    assert Estimate(mean_gb=88.0, sd_gb=4.0).probability_over(80.0) == pytest.approx(0.977, abs=1e-3)
    assert Estimate(mean_gb=81.0, sd_gb=0.0).probability_over(80.0) == 1.0


def test_after_three_real_trials_the_error_on_the_held_out_one_is_halved():
    """Each recorded attempt of the tiny job is held out once; the other three teach."""
    recorded = list(attempts())
    assert len(recorded) >= 4
    raw, corrected = [], []
    for held_out, (_name, peaks) in enumerate(recorded):
        others = [recorded[index][1] for index in range(len(recorded)) if index != held_out][:3]
        learned = Correction(CAPACITY_GB, CAPPED_CPU_WORKER).learn(peak for each in others for peak in each)
        for peak in peaks:
            raw.append(abs(peak.predicted_gb - peak.measured_gb))
            found = learned.estimate(peak.phase, peak.predicted_gb)
            corrected.append(abs(found.mean_gb - peak.measured_gb))
    assert sum(corrected) <= 0.5 * sum(raw)
