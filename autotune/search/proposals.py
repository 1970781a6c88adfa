"""The sampler's next candidate, as a pure function of the study's history.

The proposal is made in a copy of the study that lives in memory and is thrown away. So a proposal
that was tried before can be declined without leaving a trial behind, and the random state follows
from (seed, number) alone: a resumed study proposes what the uninterrupted one would have.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence

import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial

from autotune.job.space_resolution import ResolvedParameter, ResolvedSpace
from autotune.records import Overrides, Value
from autotune.search.distributions import distribution, from_choice
from autotune.search.moves import is_among, point

_STARTUP_TRIALS = 5
"""Told trials before TPE's model is trusted; Optuna's default of 10 would be most of a short stage."""
_DECLINES = 20
"""Proposals declined as already tried before a random untried point is taken."""


def propose(
    history: Sequence[FrozenTrial], space: ResolvedSpace, tried: Sequence[Overrides], seed: int
) -> Overrides | None:
    """The next point of `space` that is not in `tried`; None when nothing untried was found.

    Args:
        history: The study's trials, running ones included (they repel, see TPE's constant liar).
        space: The stage's space.
        tried: Parameter values of every trial so far, whether asked by the sampler or not.
        seed: Of this one proposal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=_STARTUP_TRIALS, multivariate=True, group=True
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        # A waiting trial (enqueued in the dashboard) would be what `ask` returns.
        study.add_trials([trial for trial in history if trial.state != optuna.trial.TrialState.WAITING])
        for _ in range(_DECLINES):
            trial = study.ask()
            params = _sampled(trial, space)
            if not is_among(params, tried):
                return params
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return _untried_at_random(space, tried, random.Random(seed))


def _sampled(trial: Trial, space: ResolvedSpace) -> dict[str, Value]:
    return point(space, lambda parameter: _suggest(trial, parameter))


def _suggest(trial: Trial, parameter: ResolvedParameter) -> Value:
    shape = distribution(parameter)
    if isinstance(shape, CategoricalDistribution):
        return from_choice(trial.suggest_categorical(parameter.key, shape.choices))
    if isinstance(shape, IntDistribution):
        return trial.suggest_int(parameter.key, shape.low, shape.high, step=shape.step, log=shape.log)
    return trial.suggest_float(parameter.key, shape.low, shape.high, step=shape.step, log=shape.log)


def _untried_at_random(
    space: ResolvedSpace, tried: Sequence[Overrides], generator: random.Random
) -> dict[str, Value] | None:
    sampler = optuna.samplers.RandomSampler(seed=generator.randrange(2**31))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(10 * _DECLINES):
        params = _sampled(study.ask(), space)
        if not is_among(params, tried):
            return params
    return None
