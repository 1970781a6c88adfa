"""Stage speed: the survivor repeated, one change at a time in the checklist's order, then joint search."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace

from autotune.job.model import SpeedStage
from autotune.judge.drift import machine_drift
from autotune.judge.statistics import noise_floor_frac
from autotune.ladder.stopping import why_to_stop
from autotune.ladder.view import CLEARLY, Baseline, Finish, Move, Propose, Sample, StageView, TrialView, Wait
from autotune.records import Candidate, Figures, Overrides
from autotune.search.moves import changed, is_among, neighbours
from autotune.search.repairs import untried

LEAST_NOISE_FRAC = 0.02
"""Floor of the noise: two runs never agree better than this, however well their medians look."""
_ONE_CHANGE = re.compile(r"one change from #(?P<start>\d+): (?P<key>\S+) ")


def next_move(view: StageView) -> Move:
    """What to do with a free slot."""
    assert isinstance(view.section, SpeedStage)
    if view.is_full:
        return Finish(f"all {view.section.trials} trials used")
    if len(view.repeats) < view.section.baseline_repeats:
        return Propose(view.start)
    if _repeat_is_due(view):
        return Propose(view.start)
    carried = untried(view.first[1:], view.tried)
    if carried is not None:
        return Propose(carried)
    noise_floor = baseline(view)
    if noise_floor is None:
        return (
            Wait() if view.running else Finish("the survivor did not run again, so nothing can be compared")
        )
    step = _next_step(view, noise_floor.throughput_noise_frac)
    if step is not None:
        return Propose(step)
    # A running step may move the incumbent, and so what the next single change starts from.
    if any(_ONE_CHANGE.match(trial.candidate.origin) for trial in view.running):
        return Wait()
    spent = why_to_stop(view, noise_floor.throughput_noise_frac)
    return Sample() if spent is None else Finish(spent)


def baseline(view: StageView) -> Baseline | None:
    """The survivor's median speed over its repeats; None until one of them has completed.

    The scatter of the reward is that of all repeats; all other figures are those of the repeat next to the
    median.
    """
    return view.folds.of("speed.baseline", view.repeats, _baseline)


def _baseline(runs: Sequence[TrialView]) -> Baseline | None:
    repeats = _measured(runs)
    if not repeats:
        return None
    speeds = [speed for speed, _ in repeats]
    figures = [trial.verdict.figures for _, trial in repeats if trial.verdict is not None]
    median = statistics.median(speeds)
    middle = min(figures, key=lambda f: abs((f.tokens_per_s_per_gpu or 0.0) - median))
    within = statistics.median([f.tokens_per_s_noise_frac or 0.0 for f in figures])
    # The median of n steps is known to about within / sqrt(n). What repeats show, where it is larger, is
    # what a change has to exceed.
    between = noise_floor_frac(speeds) or 0.0
    steps = max(middle.steps - (middle.warmup_steps or 0), 1)
    noise = max(between, within / steps**0.5, LEAST_NOISE_FRAC)
    reward_std, degrees = _pooled_reward_std(figures)
    return Baseline(
        figures=replace(middle, tokens_per_s_per_gpu=median, reward_std=reward_std),
        throughput_noise_frac=noise,
        repeats=len(repeats),
        drift=machine_drift([[(trial.number, speed) for speed, trial in repeats if speed > 0.0]]),
        reward_std_degrees=degrees,
    )


def _pooled_reward_std(figures: Sequence[Figures]) -> tuple[float | None, int]:
    """Root of the mean variance, weighted by degrees of freedom, and their sum."""
    known = [(f.reward_std**2, f.reward_std_degrees) for f in figures if f.reward_std is not None]
    degrees = sum(own for _, own in known)
    if not known or degrees == 0:
        return None, 0
    return math.sqrt(math.fsum(variance * own for variance, own in known) / degrees), degrees


def incumbent(view: StageView, noise_frac: float) -> TrialView:
    """The trial that single changes start from; there has to be a baseline.

    From the survivor's median run on, each incumbent beat the one before it by more than the noise.
    """
    repeats = _measured(view.repeats)
    middle = statistics.median_low([speed for speed, _ in repeats])
    best = next(trial for speed, trial in repeats if speed == middle)
    for trial in _records(view):
        if _beats(view, trial, best, noise_frac):
            best = trial
    return best


def _records(view: StageView) -> tuple[TrialView, ...]:
    """Trials inside the memory limit that were faster than all before them, runs of the start left out.

    No other beats an incumbent: what did not was at most so much faster than it as the noise allows.
    """

    def step(records: tuple[TrialView, ...], trial: TrialView) -> tuple[TrialView, ...]:
        speed = view.objective_within_limit(trial)
        if view.is_start(trial) or speed is None:
            return records
        is_faster = not records or speed > (records[-1].objective or 0.0)
        return (*records, trial) if is_faster else records

    key = (view.start_key, view.section.peak_memory_frac)
    start: tuple[TrialView, ...] = ()
    return view.folds.over(view, "speed.records", start, step, key=key)


def _repeat_is_due(view: StageView) -> bool:
    """Whether so many other trials followed the latest run of the survivor that it has to run again."""
    assert isinstance(view.section, SpeedStage)

    def step(since: int, trial: TrialView) -> int:
        if trial.is_void:
            return since
        return 0 if view.is_start(trial) else since + 1

    since = view.folds.over(view, "speed.since", 0, step, key=view.start_key)
    return view.section.baseline_every is not None and since >= view.section.baseline_every


def _measured(repeats: Sequence[TrialView]) -> list[tuple[float, TrialView]]:
    return [
        (t.objective, t)
        for t in repeats
        if t.is_complete and t.objective is not None and t.verdict is not None
    ]


def _beats(view: StageView, trial: TrialView, other: TrialView, noise_frac: float) -> bool:
    """Whether `trial` is faster than `other` by more than the noise of both, inside the memory limit."""
    speed = view.objective_within_limit(trial)
    if speed is None:
        return False
    return other.objective is None or speed > other.objective * (1.0 + CLEARLY * noise_frac)


def _next_step(view: StageView, noise_frac: float) -> Candidate | None:
    start = incumbent(view, noise_frac)
    params = start.candidate.params
    settled = _settled(view, noise_frac)
    for parameter in view.space.active(params):
        if parameter.key not in params:
            continue
        before = params[parameter.key]
        for value in neighbours(parameter, before):
            step = Candidate(
                params=changed(view.space, params, parameter.key, value),
                origin=f"one change from #{start.number}: {parameter.key} {before} -> {value}",
            )
            if not is_among({parameter.key: value}, settled) and not view.has_tried(step):
                return step
    return None


def _settled(view: StageView, noise_frac: float) -> list[Overrides]:
    """Key and value of what a single change showed to be no better: what lost, and what was left behind.

    Such a value is not tried again from each later incumbent, which would use up the stage; how
    parameters play together is the joint search's business.
    """
    settled: list[Overrides] = []
    none_yet: tuple[TrialView, ...] = ()
    for trial in view.folds.over(view, "speed.single changes", none_yet, _with_single_change):
        step = _ONE_CHANGE.match(trial.candidate.origin)
        if step is None:
            continue
        start = view.trial(int(step["start"]))
        loser = start if _beats(view, trial, start, noise_frac) else trial
        settled.append({step["key"]: loser.candidate.params[step["key"]]})
    return settled


def _with_single_change(found: tuple[TrialView, ...], trial: TrialView) -> tuple[TrialView, ...]:
    is_one = trial.verdict is not None and not trial.is_void and _ONE_CHANGE.match(trial.candidate.origin)
    return (*found, trial) if is_one else found
