"""Whole stages against made-up machines: each comes to its end, stays in its space, repeats nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ladder.acceptance import is_accepted
from autotune.ladder.strategy import baseline, next_move
from autotune.ladder.view import Finish, Propose, Wait
from autotune.records import Candidate, StageName
from autotune.search.moves import is_among, point
from tests.ladder.builders import (
    CLIP,
    ENTROPY,
    FASTEST,
    KL,
    LR,
    completed,
    failed,
    quality_view,
    speed_view,
    survive_view,
    trial,
)
from tests.search.builders import BUDGET, ENGINE, MICRO, OFFLOAD

TRIALS = 25


def survives(params, chance):
    tokens = params.get(BUDGET, 512 * params.get(MICRO, 16))
    peak = 0.2 + tokens / 16384 + (0.0 if params[OFFLOAD] else 0.2)
    if peak > 1.0:
        return failed("oom_gpu_actor_update", peak=None)
    if peak + params[ENGINE] > 1.5:
        return failed("oom_gpu_rollout_wakeup", phase="weight_sync", peak=peak)
    return completed(peak=peak)


def speeds(params, chance):
    if params["micro"] == 16:
        return failed("oom_gpu_actor_update", asked=6)
    speed = 1000 + 100 * params["micro"] + 300 * params["dynamic"] - 800 * abs(params["share"] - 0.7)
    return completed(steps=6, asked=6, tokens_per_s_per_gpu=speed * chance.uniform(0.98, 1.02))


def learns(params, chance):
    if params[LR] > 8e-6:
        return failed("kl_drift", asked=20)
    reward = 0.5 - abs(params[LR] - 3e-6) * 5e4 + params[ENTROPY] - abs(params[CLIP] - 0.15)
    return completed(steps=20, asked=20, reward=reward, kl=params[LR] * 4e4 / (1 + 100 * params[KL]))


STAGES = {
    StageName.SURVIVE: (survive_view, survives),
    StageName.SPEED: (speed_view, speeds),
    StageName.QUALITY: (quality_view, learns),
}


def ended(view, flying, machine, chance):
    """`flying` with what became of it; one attempt in ten is the machine's fault."""
    verdict = failed("cuda_fault") if chance.random() < 0.1 else machine(flying.candidate.params, chance)
    reward, kl = verdict.figures.reward or 0.0, verdict.figures.kl or 0.0
    told = trial(
        flying.number,
        flying.candidate.params,
        verdict,
        origin=flying.candidate.origin,
        stage=view.stage,
        rewards=tuple(reward * (step + 1) / 20 for step in range(20)),
        kls=(kl,) * 20,
    )
    trials = tuple(told if t.number == told.number else t for t in view.trials)
    after = replace(view, trials=trials)
    return replace(told, accepted=is_accepted(view.section, verdict, baseline(after)))


def run(stage, slots, chance):
    """The view at the end of a stage whose trials end in any order."""
    build, machine = STAGES[stage]
    view = build(trials=TRIALS)
    while True:
        move = Wait()
        while len(view.running) < slots:
            move = next_move(view)
            if isinstance(move, (Finish, Wait)):
                break
            candidate = move.candidate if isinstance(move, Propose) else sampled(view, chance)
            view = replace(
                view,
                trials=(*view.trials, trial(len(view.trials), candidate.params, origin=candidate.origin)),
            )
        if not view.running:
            assert isinstance(move, Finish), "it waits for nothing"
            return view
        told = ended(view, chance.choice(view.running), machine, chance)
        view = replace(view, trials=tuple(told if t.number == told.number else t for t in view.trials))


def sampled(view, chance):
    def choose(parameter):
        if parameter.kind == "categorical":
            return chance.choice(parameter.choices)
        return parameter.clip(chance.uniform(parameter.low, parameter.high))

    return Candidate(params=point(view.space, choose), origin="sampler")


@pytest.mark.parametrize("stage", STAGES)
@settings(max_examples=40)
@given(slots=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_a_stage_comes_to_its_end(stage, slots, seed):
    view = run(stage, slots, random.Random(seed))
    assert len(view.trials) <= TRIALS
    assert all(view.space.contains(t.candidate.params) for t in view.trials)
    if stage is StageName.SURVIVE:
        assert any(t.accepted for t in view.trials)
    counted = [t for t in view.trials if not t.is_void and t.candidate.origin != "sampler"]
    others = [t.candidate.params for t in counted if not view.is_start(t)]
    assert not any(is_among(params, others[:place]) for place, params in enumerate(others))
    if stage is StageName.SPEED:
        repeats = [t for t in counted if view.is_start(t)]
        more = len(view.trials) // view.section.baseline_every
        assert view.section.baseline_repeats <= len(repeats) <= view.section.baseline_repeats + more


@pytest.mark.parametrize("seed", range(5))
def test_survive_mends_the_users_configuration_in_a_few_trials(seed):
    view = run(StageName.SURVIVE, 1, random.Random(seed))
    said_something = [t for t in view.trials if not t.is_void]
    assert said_something[-1].accepted
    assert len(said_something) <= 4


def test_quality_starts_from_what_was_handed_on():
    view = run(StageName.QUALITY, 1, random.Random(0))
    assert next(t for t in view.trials if not t.is_void).candidate.params == FASTEST
