"""The peers: random search, Optuna's samplers, a DeepSpeed-style sequential doubling."""

from __future__ import annotations

import importlib.util
import random
from typing import Any

from autotune.job.resolved_space import ResolvedParameter
from autotune.records import Overrides, Value
from autotune.search.distributions import from_choice, to_choice
from autotune.search.moves import completed, point
from benchmarks.landscape.recording import Landscape
from benchmarks.search.drive import Driver, Told


def random_search(driver: Driver, landscape: Landscape, seed: int) -> None:
    """Every recorded candidate once, in random order, the job's own first."""
    others = list(landscape.configurations[1:])
    random.Random(seed).shuffle(others)
    for configuration in (landscape.start, *others):
        if driver.is_over:
            return
        driver.run(configuration.params)


def suggested(trial: Any, landscape: Landscape) -> Overrides:
    """An Optuna trial's candidate, define-by-run, conditions kept."""

    def choose(parameter: ResolvedParameter) -> Value:
        choices = [to_choice(choice) for choice in parameter.choices]
        return from_choice(trial.suggest_categorical(parameter.key, choices))

    return point(landscape.space, choose)


def enqueued(landscape: Landscape) -> dict[str, Any]:
    """The job's own configuration as Optuna's and Ray Tune's first trial."""
    return {key: to_choice(value) for key, value in landscape.start.params.items()}


def optuna_tpe(driver: Driver, landscape: Landscape, seed: int) -> None:
    """Optuna's default sampler, every trial to its end; failures are FAIL, as they are without our judge."""
    import optuna

    _optuna(driver, landscape, optuna.samplers.TPESampler(seed=seed))


def optuna_gp(driver: Driver, landscape: Landscape, seed: int) -> None:
    """Optuna's Gaussian process sampler."""
    import optuna

    _optuna(driver, landscape, optuna.samplers.GPSampler(seed=seed))


def _optuna(driver: Driver, landscape: Landscape, sampler: Any) -> None:
    import optuna

    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(enqueued(landscape))
    while not driver.is_over:
        trial = study.ask()
        told = driver.run(suggested(trial, landscape))
        if told.is_complete and told.speed is not None:
            study.tell(trial, told.speed)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)


def sequential_doubling(driver: Driver, landscape: Landscape, seed: int) -> None:
    """One parameter after the other, each moved on while that helps, as DeepSpeed's autotuner does.

    deepspeed/autotuning/autotuner.py (2026-08-22) doubles the micro batch until it fails or gets no faster,
    keeps the best, and goes on to the next knob; a pass that changed nothing ends it, as does
    `tuner_early_stopping`. It has no seed: repeats differ by the recording's noise alone.
    """
    best = dict(landscape.start.params)
    best_told = driver.run(best)
    changed = True
    while changed and not driver.is_over:
        changed = False
        for parameter in landscape.space.parameters:
            for direction in (1, -1):
                moved = _moved_on(driver, landscape, parameter, best, best_told, direction)
                if moved is not None:
                    best, best_told = moved
                    changed = True
                    break


def _moved_on(
    driver: Driver,
    landscape: Landscape,
    parameter: ResolvedParameter,
    best: dict[str, Value],
    told: Told,
    direction: int,
) -> tuple[dict[str, Value], Told] | None:
    """The last of the values in one direction that still made it faster; None where the first did not."""
    kept: tuple[dict[str, Value], Told] | None = None
    choices = list(parameter.choices)
    while not driver.is_over and best.get(parameter.key) in choices and parameter.key in best:
        place = choices.index(best[parameter.key]) + direction
        if not 0 <= place < len(choices):
            break
        params = completed(landscape.space, {**best, parameter.key: choices[place]})
        new = driver.run(params)
        if not new.is_complete or new.speed is None or new.speed <= (told.speed or 0.0):
            break
        best, told = params, new
        kept = (best, told)
    return kept


def missing(package: str) -> bool:
    """Whether a peer's package is not installed."""
    return importlib.util.find_spec(package) is None
