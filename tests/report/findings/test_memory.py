"""Peaks by phase against the limit."""

import pytest

from autotune.report.findings.memory import MemoryFinding, MemoryUse


def use(**changes):
    values = {
        "name": "survivor",
        "trial": "survive/1",
        "by_phase_frac": {"rollout": 0.5},
        "peak_frac": 0.5,
        "peak_gb": 40.0,
        "peak_phase": "rollout",
        "failure": "",
    }
    return MemoryUse(**{**values, **changes})


def test_the_named_configurations_from_the_users_to_the_exported(studied):
    finding = studied.memory
    assert [one.name for one in finding.uses] == ["your configuration", "survivor", "fastest", "best"]
    assert finding.uses[0].failure == "oom_gpu_actor_update"
    assert finding.uses[-1].capacity_gb == pytest.approx(80)
    assert finding.headroom_frac == pytest.approx(0.09)
    assert finding.phases[:2] == ("model_load", "rollout_start")


def test_forecast_phases_are_shown_in_the_runs_order():
    finding = MemoryFinding(limit_frac=0.8, uses=(use(forecast_frac={"weight_sync": 0.4, "ready": 0.1}),))
    assert finding.phases == ("ready", "rollout", "weight_sync")


def test_over_the_limit_there_is_no_headroom():
    finding = MemoryFinding(limit_frac=0.8, uses=(use(peak_frac=0.9),))
    assert finding.headroom_frac == pytest.approx(-0.1)


def test_without_a_reading_the_capacity_is_not_known():
    assert use(peak_frac=None, peak_gb=None).capacity_gb is None
