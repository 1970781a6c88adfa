"""Stage quality: the fastest configuration as baseline, moves read from its curves, next to the sampler."""

from __future__ import annotations

from autotune.job.model import QualityStage
from autotune.ladder.diagnosis import moves
from autotune.ladder.view import Baseline, Finish, Move, Propose, Sample, StageView, TrialView, Wait
from autotune.records import Candidate
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
    return Sample()


def baseline(view: StageView) -> Baseline | None:
    """The first trial's figures; None until it has completed."""
    first = next((t for t in view.trials if view.is_start(t) and t.is_complete), None)
    if first is None or first.verdict is None:
        return None
    return Baseline(figures=first.verdict.figures, throughput_noise_frac=0.0, repeats=1)


def _next_diagnosed(view: StageView) -> Candidate | None:
    """An untried move from one of the best two trials; while none has completed, a repair of the latest."""
    complete = [trial for trial in view.ended if trial.is_complete and trial.objective is not None]
    if not complete:
        return _next_repair(view)
    for trial in sorted(complete, key=lambda t: t.objective or 0.0, reverse=True)[:2]:
        found = untried(_diagnosed(view, trial), view.tried)
        if found is not None:
            return found
    return None


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
    for move in moves(trial.rewards, trial.kls, view.section.kl_band):
        parameter = parameters.get(move.key)
        current = trial.candidate.params.get(move.key)
        if parameter is None or current is None:
            continue
        value = scaled(parameter, current, move.factor)
        if value is None:
            continue
        found.append(
            Candidate(
                params=changed(view.space, trial.candidate.params, move.key, value),
                origin=f"curve of #{trial.number} ({move.sign}): {move.key} {current} -> {value}",
            )
        )
    return found
