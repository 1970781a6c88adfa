"""A finish at one moment: each run told by its arm, its seed and how fast it was."""

from __future__ import annotations

from dataclasses import replace

from autotune.job.model import FinishStage
from autotune.job.space import SearchSpace
from autotune.judge.run_figures import RunFigures
from autotune.ladder import finish
from autotune.ladder.view import StageView, TrialView
from autotune.records import Arm, FinishPlan, StageName
from tests.ladder.builders import completed, failed
from tests.search.builders import space

SURVIVOR, WINNER = {"micro": 8}, {"micro": 8, "lr": 2e-6}
JITTER = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)


def plan(pairs=6, **more):
    looks = more.get("looks", finish.looks_of(pairs))
    after = more.get("after") or (0,) * len(looks)
    return FinishPlan(
        **{
            "pairs": pairs,
            "looks": looks,
            "alphas": finish.alphas_of(looks, 0.05),
            "least_gain_frac": 0.02,
            "goals": ("tokens_per_s_per_gpu",),
            "seeds": tuple(range(101, 101 + finish.most_pairs(looks, after))),
            "steps": 6,
            "validation": True,
            "winner": WINNER,
            "survivor": SURVIVOR,
            **more,
        }
    )


def run(speed=1000.0, **more):
    return RunFigures(
        **{
            "tokens_per_s_per_gpu": speed,
            "sequence_tokens": None,
            "reward": 0.5,
            "validation_reward": 0.5,
            "peak_memory_gb": 50.0,
            **more,
        }
    )


def view_of(*trials, **of_plan):
    made = plan(**of_plan)
    section = FinishStage(
        search_space=SearchSpace.model_construct(name="finish", parameters={}),
        steps=made.steps,
        trials=2 * len(made.seeds) + 1,
    )
    numbered = tuple(replace(trial, number=number) for number, trial in enumerate(trials))
    return StageView(stage=StageName.FINISH, section=section, space=space(), trials=numbered, plan=made)


def ran(arm, seed, speed=1000.0, **more):
    """A completed run."""
    candidate = finish.candidate(Arm(arm), seed)
    return TrialView(number=0, candidate=candidate, verdict=completed(), run=run(speed, **more))


def fell(arm, seed, kind="oom_gpu_actor_update"):
    """A run that ended by a failure."""
    return TrialView(number=0, candidate=finish.candidate(Arm(arm), seed), verdict=failed(kind))


def flying(arm, seed):
    """A run in the air."""
    return TrialView(number=0, candidate=finish.candidate(Arm(arm), seed))


def ran_pairs(count, gain=0.0, *, against=Arm.OWN, winner=(), reference=()):
    """Complete pairs in their order; `winner` and `reference` change their runs' figures."""
    trials = []
    for place in range(count):
        seed = 101 + place
        pair = [
            ran(against, seed, 1000.0, **dict(reference)),
            ran(Arm.WINNER, seed, 1000.0 * (1.0 + gain) * JITTER[place % len(JITTER)], **dict(winner)),
        ]
        trials += pair if place % 2 == 0 else reversed(pair)
    return trials
