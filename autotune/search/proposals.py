"""The sampler's next candidate, as a pure function of the study's history.

The proposal is made in a study that lives in memory, looks at the given trials and is thrown away. So a
proposal that was tried before can be declined without leaving a trial behind, and the random state
follows from (seed, number) alone: a resumed study proposes what the uninterrupted one would have.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Container, Hashable, Mapping, Sequence

import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.job.space_resolution import ResolvedParameter, ResolvedSpace
from autotune.records import Overrides, Value
from autotune.search.distributions import distribution, from_choice
from autotune.search.moves import is_among, point
from autotune.search.points import point_key

_STARTUP_TRIALS = 5
"""Told trials before TPE's model is trusted; Optuna's default of 10 would be most of a short stage."""
_LARGEST_GRID = 4096
"""Points of a space that is looked through for what is untried, rather than drawn from."""
_DECLINES = 20
"""Proposals declined as already tried before a random untried point is taken."""


def propose(
    history: Sequence[FrozenTrial], space: ResolvedSpace, tried: Sequence[Overrides], seed: int
) -> Overrides | None:
    """The next point of `space` that is not in `tried`; None when nothing untried was found.

    Args:
        history: The trials to learn from, in the order of their numbers; see `Recall`.
        space: The stage's space.
        tried: Parameter values of every trial so far, whether asked by the sampler or not.
        seed: Of this one proposal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=_STARTUP_TRIALS, multivariate=True, group=True
        )
        study = optuna.create_study(storage=_AfterHistory(history), direction="maximize", sampler=sampler)
        for _ in range(_DECLINES):
            trial = study.ask()
            params = _sampled(trial, space)
            if not is_among(params, tried):
                return params
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return _untried_at_random(space, tried, random.Random(seed))


class _AfterHistory(InMemoryStorage):
    """Shows the given trials before its own. None is copied, for no sampler changes what it looks at."""

    def __init__(self, history: Sequence[FrozenTrial]) -> None:
        super().__init__()
        # A waiting trial (enqueued in the dashboard) would be what `ask` returns.
        self._history = [trial for trial in history if trial.state != TrialState.WAITING]

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """The trials in one of `states`."""
        before = [trial for trial in self._history if states is None or trial.state in states]
        return [*before, *super().get_all_trials(study_id, deepcopy, states)]


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
    grid = _grid(space)
    if grid is not None:
        left = [params for params in grid if not is_among(params, tried)]
        return generator.choice(left) if left else None
    sampler = optuna.samplers.RandomSampler(seed=generator.randrange(2**31))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(10 * _DECLINES):
        params = _sampled(study.ask(), space)
        if not is_among(params, tried):
            return params
    return None


def _grid(space: ResolvedSpace) -> list[dict[str, Value]] | None:
    """Every point of a small space; None where it is not finite, or larger than `_LARGEST_GRID`."""
    values: dict[str, Sequence[Value]] = {}
    size = 1
    for parameter in space.parameters:
        shape = distribution(parameter)
        if isinstance(shape, CategoricalDistribution):
            values[parameter.key] = [from_choice(choice) for choice in shape.choices]
        elif isinstance(shape, IntDistribution):
            values[parameter.key] = range(shape.low, shape.high + 1, shape.step)
        else:
            return None
        size *= len(values[parameter.key])
        if size > _LARGEST_GRID:
            return None
    found: dict[Hashable, dict[str, Value]] = {}
    for chosen in itertools.product(*values.values()):
        params = point(space, _as_chosen(dict(zip(values, chosen, strict=True))))
        found.setdefault(point_key(params), params)
    return list(found.values())


def _as_chosen(whole: Mapping[str, Value]) -> Callable[[ResolvedParameter], Value]:
    return lambda parameter: whole[parameter.key]
