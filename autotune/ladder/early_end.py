"""Whether a trial in the air is worth its remaining steps, by what its stage has seen. Pure.

Survive runs every trial to its end: how far a candidate comes is its objective.
"""

from __future__ import annotations

from autotune.job.model import QualityStage, SpeedStage
from autotune.judge import early_end
from autotune.judge.evidence import Evidence
from autotune.judge.figures import THROUGHPUT, column, steady_rows
from autotune.judge.guards import REWARD
from autotune.ladder import speed
from autotune.ladder.view import CLEARLY, StageView, TrialView
from autotune.records import GuardStop


def early_stop(view: StageView, trial: TrialView, evidence: Evidence, steps: int) -> GuardStop | None:
    """The decision to end a measuring attempt because it cannot win; None to let it run.

    A run of the stage's start is never ended: everything else is measured against it.

    Args:
        view: The stage, `trial` among its trials.
        trial: The running trial.
        evidence: What its attempt reported so far.
        steps: Steps that the attempt was asked for.
    """
    if not evidence.rows or view.is_start(trial):
        return None
    kind, reason = "", None
    if isinstance(view.section, SpeedStage) and view.section.end_early:
        kind, reason = early_end.SLOWER_THAN_BEST, _slower(view, evidence, steps)
    elif isinstance(view.section, QualityStage) and view.section.end_early:
        kind, reason = early_end.CURVE_BEHIND, _behind(view, evidence, steps)
    if reason is None:
        return None
    return GuardStop(kind=kind, phase=evidence.phase, reason=reason, at_s=evidence.rows[-1].at_s)


def _slower(view: StageView, evidence: Evidence, steps: int) -> str | None:
    best = best_speed(view)
    if best is None:
        return None
    warmup = view.section.warmup_steps
    # With few steps the rule may not see the warm-up yet, and a slow first step must not end a trial.
    rows = evidence.rows[1:] if warmup is None else evidence.rows
    steady = column(steady_rows(rows, warmup), THROUGHPUT)
    return early_end.slower_than_best(steady, steps - evidence.steps, best)


def best_speed(view: StageView) -> early_end.BestSpeed | None:
    """The speed to catch: the fastest trial inside the memory limit; None before the noise is known."""
    assert isinstance(view.section, SpeedStage)
    base = speed.baseline(view)
    if base is None or base.repeats < view.section.baseline_repeats:
        return None
    start: TrialView | None = None
    best = view.folds.over(
        view,
        "early_end.best",
        start,
        lambda best, trial: _faster(view, best, trial),
        key=view.section.peak_memory_frac,
    )
    if best is None or best.objective is None:
        return None
    repeats = [t.verdict.figures for t in view.repeats if t.is_complete and t.verdict]
    return early_end.BestSpeed(
        number=best.number,
        tokens_per_s=best.objective,
        # As where a change counts as one.
        low=best.objective * (1.0 - CLEARLY * base.throughput_noise_frac),
        step_noise_frac=max((f.tokens_per_s_noise_frac or 0.0 for f in repeats), default=0.0),
        step_noise_freedom=sum(max(f.steps - (f.warmup_steps or 0) - 1, 0) for f in repeats),
    )


def _faster(view: StageView, best: TrialView | None, trial: TrialView) -> TrialView | None:
    found = view.objective_within_limit(trial)
    if found is None:
        return best
    return trial if best is None or found > (best.objective or 0.0) else best


def _behind(view: StageView, evidence: Evidence, steps: int) -> str | None:
    finished = [t.rewards for t in view.trials if t.is_complete]
    return early_end.curve_behind(column(evidence.rows, REWARD), steps, finished)
