"""What each stage started from and reached."""

import pytest

from autotune.records import StageName


def test_the_users_configuration_failed_and_its_repair_survives(studied):
    rung = studied.rungs[0]
    assert (rung.before_name, rung.before_trial, rung.before_failure) == (
        "your configuration",
        "survive/0",
        "oom_gpu_actor_update",
    )
    assert (rung.after_trial, rung.after, rung.wanted) == ("survive/1", pytest.approx(0.74), 0.8)
    assert rung.acceptance_met


def test_the_speed_gain_is_over_the_survivors_median(studied):
    rung = studied.rungs[1]
    assert rung.before == pytest.approx(1020, rel=0.02)
    assert rung.gain == pytest.approx(rung.after / rung.before)
    assert rung.wanted == pytest.approx(1.3 * rung.before)
    assert 1.2 < rung.gain_low < rung.gain < rung.gain_high


def test_a_stage_that_missed_its_acceptance_says_so(studied):
    rung = studied.rungs[2]
    assert rung.stage is StageName.QUALITY
    assert (rung.acceptance_met, rung.state, rung.after_trial) == (False, "ended", "quality/1")
    assert rung.before < rung.after < rung.wanted
