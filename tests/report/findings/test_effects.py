"""Single changes of the speed stage with intervals from the survivor's noise."""

import math

import pytest

from autotune.ladder.speed import LEAST_NOISE_FRAC
from autotune.report.findings.intervals import SIGMAS


def by_trial(finding):
    return {effect.trial: effect for effect in finding.effects}


def test_a_change_of_the_survivor_is_compared_with_its_median(studied):
    effect = by_trial(studied.effects)["speed/2"]
    assert (effect.start, effect.before, effect.after) == ("speed/1", "8", "16")
    assert effect.gain_frac == pytest.approx(1180 / 1020 - 1, abs=0.03)
    spread = studied.effects.noise_frac * math.sqrt(1.5)
    assert effect.low_frac == pytest.approx((1 + effect.gain_frac) * math.exp(-SIGMAS * spread) - 1)
    assert effect.low_frac < effect.gain_frac < effect.high_frac
    assert effect.is_clear


def test_a_change_of_a_single_run_is_less_certain(studied):
    effects = by_trial(studied.effects)
    assert (effects["speed/3"].start, effects["speed/3"].key.endswith("max_num_seqs")) == ("speed/2", True)

    def relative_width(effect):
        return (effect.high_frac - effect.low_frac) / (1 + effect.gain_frac)

    assert relative_width(effects["speed/3"]) > relative_width(effects["speed/2"])


def test_a_change_within_the_noise_is_not_clear(studied):
    assert not by_trial(studied.effects)["speed/5"].is_clear


def test_what_did_not_complete_comes_last_with_its_kind(studied):
    last = studied.effects.effects[-1]
    assert (last.trial, last.gain_frac, last.failure) == ("speed/4", None, "oom_gpu_actor_update")
    gains = [effect.gain_frac for effect in studied.effects.effects[:-1]]
    assert gains == sorted(gains, reverse=True)


def test_the_noise_is_the_ladders_own(studied):
    assert studied.effects.repeats == 2
    assert studied.effects.noise_frac >= LEAST_NOISE_FRAC
