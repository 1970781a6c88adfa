"""Acceptance in figures and words, and what a stage hands on."""

from dataclasses import replace

import pytest

from autotune.ladder.acceptance import checks, is_accepted, stage_result
from autotune.ladder.view import Baseline, StageView
from autotune.records import Figures, StageName
from tests.ladder.builders import (
    FASTEST,
    LR,
    SURVIVOR,
    completed,
    failed,
    learned,
    quality_section,
    quality_view,
    ran,
    speed_section,
    speed_view,
    survive_section,
    survive_view,
    trial,
)
from tests.search.builders import ENGINE


def against(**figures):
    return Baseline(figures=Figures(**figures), throughput_noise_frac=0.02, repeats=2)


SURVIVOR_RAN = replace(against(tokens_per_s_per_gpu=1000.0, reward_std=0.02), reward_std_degrees=1000)
LEARNED = against(reward=0.4)


@pytest.mark.parametrize(
    ("verdict", "accepted", "said"),
    [
        (completed(peak=0.71), True, "peak memory 71% of the device in update_actor (limit 80%)"),
        (completed(peak=0.80), True, "peak memory 80%"),
        (completed(peak=0.81), False, "peak memory 81% of the device in update_actor (limit 80%)"),
        (completed(peak=None), True, "peak memory not measured"),
        (completed(steps=3), False, "3 of 4 steps with finite reward"),
        (failed("oom_gpu_actor_update", steps=4), False, "4 of 4 steps"),
        (failed("port_conflict", steps=4), False, "4 of 4 steps"),
    ],
)
def test_survive(verdict, accepted, said):
    assert is_accepted(survive_section(), verdict, None) is accepted
    assert said in "; ".join(check.text for check in checks(survive_section(), verdict, None))


@pytest.mark.parametrize(
    ("measured", "accepted", "said"),
    [
        ({"tokens_per_s_per_gpu": 1300.0}, True, "1.30x the survivor's tokens/s/GPU (wanted 1.3x)"),
        ({"tokens_per_s_per_gpu": 1299.0}, False, "1.29x"),
        ({"tokens_per_s_per_gpu": 1500.0, "peak": 0.9}, False, "peak memory 90%"),
        ({"tokens_per_s_per_gpu": 1500.0, "reward_std": 0.04}, True, "reward swings 0.040 (limit 0.040)"),
        ({"tokens_per_s_per_gpu": 1500.0, "reward_std": 0.05}, False, "reward swings 0.050 (limit 0.040)"),
        ({}, False, "no survivor to compare the speed with"),
    ],
)
def test_speed(measured, accepted, said):
    verdict = completed(steps=1000, asked=4, **measured)
    assert is_accepted(speed_section(), verdict, SURVIVOR_RAN) is accepted
    assert said in "; ".join(check.text for check in checks(speed_section(), verdict, SURVIVOR_RAN))


def test_speed_allows_a_little_roughness_over_a_baseline_that_is_smooth_by_chance():
    smooth = replace(against(tokens_per_s_per_gpu=1000.0, reward_std=0.0), reward_std_degrees=1000)
    for std, accepted in ((0.02, True), (0.03, False)):
        verdict = completed(steps=1000, asked=4, tokens_per_s_per_gpu=1500.0, reward_std=std)
        assert is_accepted(speed_section(), verdict, smooth) is accepted


@pytest.mark.parametrize(("steps", "accepted"), [(6, True), (60, False)])
def test_the_scatter_of_a_few_rewards_is_allowed_what_chance_does(steps, accepted):
    # Over 2.5 times as much: with six steps chance does that, with sixty it does not.
    base = replace(against(tokens_per_s_per_gpu=1000.0, reward_std=0.02), reward_std_degrees=8)
    verdict = completed(steps=steps, asked=steps, tokens_per_s_per_gpu=1500.0, reward_std=0.05)
    assert is_accepted(speed_section(), verdict, base) is accepted


def test_speed_without_a_baseline_accepts_nothing():
    assert not is_accepted(speed_section(), completed(tokens_per_s_per_gpu=9e9), None)


@pytest.mark.parametrize(
    ("measured", "base", "accepted", "said"),
    [
        ({"reward": 0.47, "kl": 0.08}, 0.4, True, "reward 0.470 (wanted 0.460, was 0.400)"),
        ({"reward": 0.45, "kl": 0.08}, 0.4, False, "reward 0.450 (wanted 0.460, was 0.400)"),
        ({"reward": 0.47, "kl": 0.13}, 0.4, False, "KL 0.130 (band 0.05..0.12)"),
        ({"reward": 0.47, "kl": 0.04}, 0.4, False, "KL 0.040 (band 0.05..0.12)"),
        ({"reward": 0.47}, 0.4, False, "KL not logged"),
        # A reward below zero has to rise too: 15 % of its size.
        ({"reward": -0.84, "kl": 0.08}, -1.0, True, "wanted -0.850"),
        ({"reward": -1.15, "kl": 0.08}, -1.0, False, "wanted -0.850"),
        ({"kl": 0.08}, 0.4, False, "no baseline reward to compare with"),
        ({"reward": 0.47, "kl": 0.08}, None, False, "no baseline reward to compare with"),
    ],
)
def test_quality(measured, base, accepted, said):
    verdict, baseline = completed(**measured), against(reward=base)
    assert is_accepted(quality_section(), verdict, baseline) is accepted
    assert said in "; ".join(check.text for check in checks(quality_section(), verdict, baseline))


@pytest.mark.parametrize(
    ("own", "base", "said"),
    [
        # Both validated: the training reward, however high, is not looked at.
        (0.5, 0.4, "validation reward 0.500 (wanted 0.460, was 0.400)"),
        (0.5, None, "reward 0.900 (wanted 0.920, was 0.800)"),
        (None, 0.4, "reward 0.900 (wanted 0.920, was 0.800)"),
    ],
)
def test_quality_compares_like_with_like(own, base, said):
    verdict = completed(reward=0.9, validation_reward=own, kl=0.08, kl_estimator="k3")
    texts = [c.text for c in checks(quality_section(), verdict, against(reward=0.8, validation_reward=base))]
    assert texts[2:] == ["KL 0.080 by k3 (band 0.05..0.12)", said]


def result(view, baseline=None):
    overrides_of = {t.number: {"of": t.number} for t in view.trials}
    return stage_result(view, baseline, carried={"carried": True}, overrides_of=overrides_of)


def accepted(view: StageView, *numbers):
    trials = tuple(replace(t, accepted=t.number in numbers) for t in view.trials)
    return replace(view, trials=trials)


def test_survive_hands_on_its_best_accepted_trial():
    view = survive_view(
        trial(0, {ENGINE: 0.6}, failed("oom_gpu_actor_update")),
        trial(1, {ENGINE: 0.5}, completed(peak=0.75)),
        trial(2, {ENGINE: 0.4}, completed(peak=0.5)),
    )
    found = result(accepted(view, 1, 2))
    assert (found.best, found.accepted, found.acceptance_met) == (2, (2, 1), True)
    assert found.overrides == {"of": 2}
    assert found.trials == 3
    assert found.baseline is None
    assert found.best_figures == completed(peak=0.5).figures
    assert found.statement == (
        "acceptance met by #2: 4 of 4 steps with finite reward; "
        "peak memory 50% of the device in update_actor (limit 80%)"
    )


def test_survive_without_acceptance_has_nothing_to_hand_on():
    found = result(survive_view(trial(0, {ENGINE: 0.6}, completed(peak=0.9))))
    assert (found.best, found.accepted, found.acceptance_met) == (None, (), False)
    assert found.overrides == {"carried": True}
    assert found.statement == "no trial completed within the limits"


def test_speed_hands_on_the_fastest_inside_the_limits_when_none_is_accepted():
    view = speed_view(
        ran(0, SURVIVOR, 1000.0, reward_std=0.02),
        ran(1, {**SURVIVOR, "micro": 4}, 1200.0, reward_std=0.02),
        ran(2, {**SURVIVOR, "micro": 8}, 1500.0, reward_std=0.02, peak=0.9),
        ran(3, {**SURVIVOR, "dynamic": True}, 1600.0, reward_std=0.5),
        trial(4, {**SURVIVOR, "micro": 16}, failed("oom_gpu_actor_update"), stage=StageName.SPEED),
        trial(5, {**SURVIVOR, "share": 0.7}),
    )
    found = result(view, SURVIVOR_RAN)
    assert (found.best, found.acceptance_met, found.overrides) == (1, False, {"of": 1})
    assert found.statement.startswith("acceptance not met by #1: ")
    assert "1.20x the survivor's tokens/s/GPU (wanted 1.3x)" in found.statement
    assert found.baseline == SURVIVOR_RAN.figures


def test_speed_with_nothing_measured_hands_on_what_it_was_given():
    view = speed_view(trial(0, SURVIVOR, failed("oom_gpu_actor_update"), stage=StageName.SPEED))
    found = result(view)
    assert (found.best, found.overrides) == (None, {"carried": True})


def test_a_gain_over_a_start_that_left_the_band_says_so():
    verdict = completed(reward=0.52, kl=0.08)
    base = replace(against(reward=0.45), left_band_at_step=4)
    text = "reward 0.520 (wanted 0.517, was 0.450 until its KL left the band in step 4)"
    assert text in [check.text for check in checks(quality_section(), verdict, base)]


@pytest.mark.parametrize(
    ("kls", "best"),
    [
        # Over the band is out, however good; under it is allowed; unlogged cannot be held against it.
        ((0.2, 0.08), 1),
        ((0.08, 0.2), 0),
        ((0.01, 0.2), 0),
        ((None, 0.2), 0),
    ],
)
def test_quality_hands_on_the_best_that_did_not_drift(kls, best):
    trials = (
        learned(0, {**FASTEST, LR: 2e-6}, [0.5], [kls[0]]),
        learned(1, {**FASTEST, LR: 3e-6}, [0.43], [kls[1]]),
    )
    assert result(quality_view(*trials), LEARNED).best == best


def test_qualitys_own_start_is_usable_whatever_its_kl():
    void = trial(0, FASTEST, failed("port_conflict"), stage=StageName.QUALITY)
    start = learned(1, FASTEST, [0.4], [0.5])
    drifted = learned(2, {**FASTEST, LR: 2e-6}, [0.6], [0.5])
    assert result(quality_view(void, start, drifted), LEARNED).best == 1
