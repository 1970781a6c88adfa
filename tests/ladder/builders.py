"""Stages at one moment, told in a line a trial."""

from __future__ import annotations

from autotune.job.model import QualityStage, SpeedStage, SurviveStage
from autotune.job.space import SearchSpace
from autotune.judge.kinds import facts
from autotune.ladder.objective import objective
from autotune.ladder.view import StageView, TrialView
from autotune.records import Candidate, Failure, FailureGroup, Figures, Outcome, StageName, Verdict
from tests.search.builders import ACTOR, choice, memory_space, real, space, whole

LR = ACTOR + "optim.lr"
KL = ACTOR + "kl_loss_coef"
CLIP = ACTOR + "clip_ratio_high"
ENTROPY = ACTOR + "entropy_coeff"

# Strategies see the resolved space; the section's own is never looked at.
_ANY_SPACE = SearchSpace.model_validate(
    {"name": "test", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
)
_OUTCOMES = {
    FailureGroup.CANDIDATE: Outcome.FAILED,
    FailureGroup.INFRASTRUCTURE: Outcome.INFRASTRUCTURE,
    FailureGroup.USER: Outcome.USER_FAULT,
}


def survive_section(**more):
    return SurviveStage(**{"search_space": _ANY_SPACE, "steps": 4, "trials": 20, **more})


def speed_section(**more):
    return SpeedStage(**{"search_space": _ANY_SPACE, "steps": 6, "trials": 20, **more})


def quality_section(**more):
    return QualityStage(**{"search_space": _ANY_SPACE, "steps": 20, "trials": 20, **more})


def figures(steps=4, asked=4, *, peak=0.7, phase="update_actor", **more):
    by_phase = {} if peak is None else {phase: peak}
    return Figures(
        **{
            "steps": steps,
            "steps_asked": asked,
            "peak_memory_frac": peak,
            "peak_memory_phase": "" if peak is None else phase,
            "peak_by_phase_frac": by_phase,
            **more,
        }
    )


def completed(**more):
    return Verdict(outcome=Outcome.COMPLETED, figures=figures(**more))


def failed(kind, *, steps=1, asked=4, phase="update_actor", **more):
    """A verdict whose outcome follows from the kind's group."""
    group = facts(kind).group
    failure = Failure(kind=kind, group=group, phase=phase, cause=f"{kind} in {phase}")
    measured = figures(steps, asked, phase=phase, **more)
    return Verdict(outcome=_OUTCOMES[group], figures=measured, failure=failure)


def trial(number, params, verdict=None, *, origin="sampler", accepted=False, stage=StageName.SURVIVE, **more):
    value = None if verdict is None else objective(stage, verdict)
    return TrialView(
        **{
            "number": number,
            "candidate": Candidate(params=params, origin=origin),
            "verdict": verdict,
            "objective": value,
            "accepted": accepted,
            **more,
        }
    )


def survive_view(*trials, where=None, **section):
    return StageView(
        stage=StageName.SURVIVE,
        section=survive_section(**section),
        space=where or memory_space(),
        trials=trials,
    )


def speed_space():
    """Three knobs in the checklist's order; the survivor has the second micro batch."""
    return space(
        whole("micro", 1, 16, log=True, current=2),
        choice("dynamic", False, True, current=False),
        real("share", 0.3, 0.9, step=0.1, current=0.5),
    )


SURVIVOR = {"micro": 2, "dynamic": False, "share": 0.5}


def speed_view(*trials, first=(SURVIVOR,), where=None, **section):
    return StageView(
        stage=StageName.SPEED,
        section=speed_section(**section),
        space=where or speed_space(),
        trials=trials,
        first=tuple(Candidate(params=params, origin="survivor, repeated") for params in first),
    )


def ran(number, params, speed, *, origin="sampler", peak=0.7, **more):
    """A completed trial of stage speed."""
    measured = {"steps": 6, "asked": 6, "peak": peak, "tokens_per_s_per_gpu": speed, **more}
    verdict = completed(**measured)
    return trial(number, params, verdict, origin=origin, stage=StageName.SPEED)


def quality_space():
    return space(
        real(LR, 1e-7, 1e-5, log=True, current=1e-6),
        real(KL, 1e-4, 1e-1, log=True, current=1e-3),
        real(CLIP, 0.1, 0.3, current=0.2),
        real(ENTROPY, 0.0, 0.02, current=0.0),
    )


FASTEST = {LR: 1e-6, KL: 1e-3, CLIP: 0.2, ENTROPY: 0.0}


def quality_view(*trials, first=(FASTEST,), where=None, **section):
    return StageView(
        stage=StageName.QUALITY,
        section=quality_section(**section),
        space=where or quality_space(),
        trials=trials,
        first=tuple(
            Candidate(params=params, origin="fastest configuration, as baseline") for params in first
        ),
    )


def learned(number, params, rewards, kls=(0.08,), *, origin="sampler"):
    """A completed trial of stage quality with its curves; figures are their ends."""
    verdict = completed(steps=20, asked=20, reward=rewards[-1], kl=kls[-1])
    return trial(
        number,
        params,
        verdict,
        origin=origin,
        stage=StageName.QUALITY,
        rewards=tuple(rewards),
        kls=tuple(kls),
    )
