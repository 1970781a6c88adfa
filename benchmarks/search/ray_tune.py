"""Ray Tune's own searcher and schedulers over replayed trials: OptunaSearch with ASHA, and HyperBand.

Tune's runtime starts an actor for each trial and keeps real time, so its classes are driven here as its
controller drives them (ray/tune/execution/tune_controller.py, 2.60): suggest, add, result, complete.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from typing import Any

from autotune.records import Overrides
from benchmarks.landscape.recording import Landscape
from benchmarks.search.drive import Driver
from benchmarks.search.searches import enqueued, suggested

logging.getLogger("ray.tune").setLevel(logging.WARNING)

_PENDING = 200
"""Tune's TUNE_MAX_PENDING_TRIALS_PG where the searcher is not adaptive."""


@dataclass(eq=False)
class _Trial:
    """What Tune's schedulers read of a trial."""

    trial_id: str
    params: Overrides
    status: str = "PENDING"
    is_saving: bool = False
    steps: int = 0
    speed: float | None = None
    result: dict[str, Any] = field(default_factory=dict)
    """The latest one."""


class _Controller:
    """What HyperBand asks of Tune's controller: to stop a paused trial."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def stop_trial(self, trial: _Trial) -> None:
        paused = trial.status in ("PENDING", "PAUSED")
        trial.status = "TERMINATED"
        if paused:
            self._scheduler.on_trial_remove(self, trial)


def asha(driver: Driver, landscape: Landscape, seed: int) -> None:
    """AsyncHyperBandScheduler with OptunaSearch, Tune's defaults but for its time unit, the step.

    The grace period is two steps, so that nobody is judged by the warm-up.
    """
    from ray.tune.schedulers import AsyncHyperBandScheduler
    from ray.tune.search.optuna import OptunaSearch

    search = OptunaSearch(
        lambda trial: suggested(trial, landscape) and None,
        metric="speed",
        mode="max",
        seed=seed,
        points_to_evaluate=[enqueued(landscape)],
    )
    scheduler = AsyncHyperBandScheduler(
        time_attr="training_iteration", metric="speed", mode="max", max_t=landscape.steps, grace_period=2
    )
    while not driver.is_over:
        trial = _Trial(f"t{driver.track.trials}", search.suggest(f"t{driver.track.trials}") or {})
        trial.params = _unflattened(trial.params, landscape)
        scheduler.on_trial_add(None, trial)

        def on_row(step: int, speed: float, trial: _Trial = trial) -> bool:
            trial.result = {"training_iteration": step, "speed": speed}
            search.on_trial_result(trial.trial_id, trial.result)
            return bool(scheduler.on_trial_result(None, trial, trial.result) != "STOP")

        told = driver.run(trial.params, on_row)
        if told.failed:
            scheduler.on_trial_error(None, trial)
            search.on_trial_complete(trial.trial_id, error=True)
        else:
            scheduler.on_trial_complete(None, trial, trial.result)
            search.on_trial_complete(trial.trial_id, trial.result)
            if told.speed is not None:
                # Tune hands out the best last result, of stopped trials too.
                driver.track.measured(told.configuration, told.speed)


def _unflattened(values: dict[str, Any], landscape: Landscape) -> Overrides:
    """OptunaSearch splits keys at `/` alone, so dotted keys come back as they are; choices as values."""
    from autotune.search.distributions import from_choice

    return {key: from_choice(value) for key, value in values.items()}


def hyperband(driver: Driver, landscape: Landscape, seed: int) -> None:
    """HyperBandScheduler over random candidates; a paused trial goes on from where it was.

    verl trials of a few steps write no checkpoint: going on without the steps made is a gift to it.
    """
    from ray.tune.schedulers import HyperBandScheduler

    scheduler = HyperBandScheduler(
        time_attr="training_iteration", metric="speed", mode="max", max_t=landscape.steps
    )
    controller = _Controller(scheduler)
    others = list(landscape.configurations[1:])
    random.Random(seed).shuffle(others)
    # Tune hands up to so many generated trials to its scheduler ahead of time: they fill the brackets.
    for number, configuration in enumerate([landscape.start, *others][:_PENDING]):
        scheduler.on_trial_add(controller, _Trial(f"t{number}", configuration.params))
    while not driver.is_over:
        trial = scheduler.choose_trial_to_run(controller)
        if trial is None:
            return
        _go_on(driver, scheduler, controller, trial, landscape.steps)


def _go_on(driver: Driver, scheduler: Any, controller: _Controller, trial: _Trial, steps: int) -> None:
    """One stretch of a trial: until HyperBand pauses or stops it, or it is done."""
    trial.status = "RUNNING"
    action = "CONTINUE"

    def on_row(step: int, speed: float) -> bool:
        nonlocal action
        trial.steps, trial.speed = step, speed
        # A new one each time: HyperBand keeps it, to see how far the trial came since.
        trial.result = {"training_iteration": step, "speed": speed}
        if step < steps:  # the last result ends the trial, whatever the scheduler says
            action = scheduler.on_trial_result(controller, trial, trial.result)
        return action == "CONTINUE"

    told = driver.run(trial.params, on_row, first_step=trial.steps)
    if told.failed:
        trial.status = "ERROR"
        scheduler.on_trial_error(controller, trial)
        return
    if trial.speed is not None:
        driver.track.measured(told.configuration, trial.speed)
    if action == "PAUSE":
        trial.status = "PAUSED"
    else:
        trial.status = "TERMINATED"
        if action == "CONTINUE":
            scheduler.on_trial_complete(controller, trial, trial.result)
