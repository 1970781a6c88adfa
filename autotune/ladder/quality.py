"""Stage quality: the fastest configuration as baseline, moves read from its curves, next to the sampler."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from autotune.job.model import QualityStage
from autotune.job.space_resolution import ResolvedParameter
from autotune.judge.statistics import last_quarter, quarter_of
from autotune.ladder.diagnosis import CurveMove, moves
from autotune.ladder.speed import LEAST_NOISE_FRAC
from autotune.ladder.stopping import why_to_stop
from autotune.ladder.view import Baseline, Finish, Move, Propose, Sample, StageView, TrialView, Wait
from autotune.records import Candidate, Value
from autotune.search.moves import changed, scaled
from autotune.search.repairs import repairs, untried


def next_move(view: StageView) -> Move:
    """What to do with a free slot."""
    assert isinstance(view.section, QualityStage)
    if view.is_full:
        return Finish(f"all {view.section.trials} trials used")
    waiting = untried(view.first or (view.start,), view.tried)
    if waiting is not None:
        return Propose(waiting)
    if not view.ended:
        return Wait()
    move = _next_diagnosed(view)
    if move is not None:
        return Propose(move)
    spent = why_to_stop(view, _noise_frac(view))
    return Sample() if spent is None else Finish(spent)


def baseline(view: StageView) -> Baseline | None:
    """The first trial's figures; None until it has ended.

    A start whose KL leaves the band, or that a guard stops for it, is worth what it reached inside: a user
    who keeps to the band has the policy of that step and none of the later ones.
    """
    assert isinstance(view.section, QualityStage)
    first = next((trial for trial in view.repeats if trial.verdict is not None), None)
    if first is None or first.verdict is None:
        return None
    figures = first.verdict.figures
    left = next((step for step, kl in enumerate(first.kls) if kl > view.section.kl_band[1]), None)
    if left is not None and first.rewards:
        inside = first.rewards[: max(left, 1)]
        reward = statistics.fmean(last_quarter(inside))
        figures = replace(figures, reward=reward, validation_reward=None)
    elif not first.is_complete:
        return None
    return Baseline(
        figures=figures,
        throughput_noise_frac=0.0,
        repeats=1,
        left_band_at_step=None if left is None else left + 1,
    )


def _noise_frac(view: StageView) -> float:
    """Relative noise of the smoothed final reward: of the baseline's steps, over the last quarter of them."""
    base = baseline(view)
    figures = base.figures if base else None
    if figures is None or not figures.reward or figures.reward_std is None:
        return LEAST_NOISE_FRAC
    error = figures.reward_std / math.sqrt(quarter_of(figures.steps))
    return max(error / abs(figures.reward), LEAST_NOISE_FRAC)


def _next_diagnosed(view: StageView) -> Candidate | None:
    """An untried move from one of the best two trials; while none has completed, a repair of the latest."""
    none_yet: tuple[TrialView, ...] = ()
    best = view.folds.over(view, "quality.best", none_yet, _best_two)
    if not best:
        return _next_repair(view)
    for trial in best:
        found = untried(_diagnosed(view, trial), view.tried)
        if found is not None:
            return found
    return None


def _best_two(best: tuple[TrialView, ...], trial: TrialView) -> tuple[TrialView, ...]:
    """The best two completed trials, the better first; of equals the earlier."""
    if not trial.is_complete or trial.objective is None:
        return best
    return tuple(sorted((*best, trial), key=lambda t: t.objective or 0.0, reverse=True)[:2])


def _next_repair(view: StageView) -> Candidate | None:
    # Only as long as no curve can be read: afterwards a failed move is a move too far, and taking it
    # back leads to where it came from.
    for trial in reversed(view.ended):
        if trial.verdict is not None and trial.verdict.failure is not None and not trial.is_void:
            params, failure = trial.candidate.params, trial.verdict.failure
            return untried(repairs(failure, params, view.space, number=trial.number), view.tried)
    return None


def _diagnosed(view: StageView, trial: TrialView) -> list[Candidate]:
    assert isinstance(view.section, QualityStage)
    parameters = {parameter.key: parameter for parameter in view.space.active(trial.candidate.params)}
    found: list[Candidate] = []
    signs = trial.verdict.signs if trial.verdict is not None else ()
    for move in moves(trial.rewards, trial.kls, view.section.kl_band, signs):
        parameter = parameters.get(move.key)
        current = trial.candidate.params.get(move.key)
        if parameter is None or current is None:
            continue
        value = _moved(parameter, current, move)
        if value is None:
            continue
        found.append(
            Candidate(
                params=changed(view.space, trial.candidate.params, move.key, value),
                origin=f"curve of #{trial.number} ({move.sign}): {move.key} {current} -> {value}",
                diagnosis=f"#{trial.number}: {move.sign}",
                reason=move.reason,
            )
        )
    return found


def _moved(parameter: ResolvedParameter, current: Value, move: CurveMove) -> Value | None:
    """The value that the move leads to; None where the parameter has no such value, or has it already."""
    if move.value is None:
        return scaled(parameter, current, move.factor)
    return move.value if move.value != current and parameter.contains(move.value) else None
