"""The finish: which confirming run is next, and the verdict on the winner. Pure.

Pairs of runs on fresh seeds, in the order A B, B A, A B... (A the reference, B the winner), so that a
machine that gets steadily slower or faster favours neither. How many pairs, when they are looked at and
how much error each look may spend is settled before the first run (`plan_of`); by the union bound the
looks together err no more often than 1 - confidence, however their results depend on each other.

A gain told from the pairs that decided flatters: they were believed because they were large. So a look
that says `better` is followed by pairs that had no part in it, and these free the claim of its luck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.judge.comparison import REWARD, SPEED, VALIDATION, Pair, comparisons, is_worse
from autotune.judge.drift import machine_drift
from autotune.ladder.finish_words import statement
from autotune.ladder.view import Finish, Move, Propose, StageView, TrialView, Wait
from autotune.records import (
    Arm,
    Candidate,
    Comparison,
    FinishOutcome,
    FinishPlan,
    FinishVerdict,
    Outcome,
)

DATA_SEED = "data.seed"
SEED_KEYS = (DATA_SEED, "actor_rollout_ref.rollout.seed", "actor_rollout_ref.actor.data_loader_seed")
_RUNS_ALONE = 2
"""Runs of the winner where there is nothing to compare it with."""
_LEAST_LOOK = 3
"""Pairs before the first look: with two, the interval is 12.7 standard errors wide on each side."""


def looks_of(pairs: int) -> tuple[int, ...]:
    """Numbers of complete pairs at which a verdict may be given: about half of them, and all."""
    half = max(_LEAST_LOOK, math.ceil(pairs / 2))
    return (half, pairs) if half < pairs else (pairs,)


def alphas_of(looks: Sequence[int], alpha: float) -> tuple[float, ...]:
    """What each look may spend of `alpha`: the power family alpha t^2, t the share of pairs.

    K. Kim, D. L. DeMets, Design and analysis of group sequential tests based on the type I error spending
    rate function, Biometrika 74(1), 1987. An early look spends little, so the last one is hardly wider
    than without it.
    """
    spent = [alpha * (look / looks[-1]) ** 2 for look in looks]
    return tuple(now - before for now, before in zip(spent, [0.0, *spent], strict=False))


def affordable_pairs(wanted: int, left_runs: float) -> int:
    """How many pairs the budget has room for, at least 2; one run is kept for a reference that fails."""
    return max(2, min(wanted, _room(left_runs)))


def after_of(looks: Sequence[int], wanted: int, left_runs: float) -> tuple[int, ...]:
    """Pairs that the budget has room for after each look; deciding comes first."""
    return tuple(max(0, min(wanted, _room(left_runs) - look)) for look in looks)


def most_pairs(looks: Sequence[int], after: Sequence[int]) -> int:
    """Largest number of pairs that it can come to."""
    return max(look + more for look, more in zip(looks, after, strict=True))


def _room(left_runs: float) -> int:
    return int((min(left_runs, 1e9) - 1) // 2)


def fresh_seeds(used: Sequence[int], count: int) -> tuple[int, ...]:
    """`count` seeds above all `used` ones."""
    first = max(used, default=0) + 1
    return tuple(range(first, first + count))


def next_move(view: StageView) -> Move:
    """What to do with a free slot."""
    plan = _plan(view)
    decided = verdict(view)
    if decided is not None:
        return Finish(decided.statement)
    if len(view.trials) >= 2 * view.section.trials:
        return Finish("too many runs were lost to the machine")
    for arm, seed in _order(view, plan):
        if _run(view, arm, seed) is None:
            return Propose(candidate(arm, seed))
    return Wait()


def candidate(arm: Arm, seed: int) -> Candidate:
    """A run of `arm`; which of verl's other seeds there are is the controller's to know."""
    return Candidate(params={DATA_SEED: seed}, origin=arm.value)


def final_verdict(view: StageView) -> FinishVerdict:
    """The verdict when no more runs are made, also where the machine did not let them come to one."""
    decided = verdict(view) or _compared(view, _plan(view), is_over=True)
    if decided is not None:
        return decided
    plan = _plan(view)
    note = "too many runs were lost to the machine"
    return _told(view, plan, FinishOutcome.INCONCLUSIVE, notes=(note,))


def verdict(view: StageView) -> FinishVerdict | None:
    """The verdict on the winner; None while more runs are wanted.

    It depends on the plan and on the runs alone, so that a resumed controller comes to the same.
    """
    plan = _plan(view)
    if plan.is_own or _failures(view, Arm.WINNER):
        return _told(view, plan, FinishOutcome.NOT_BETTER)
    if reference(view) is None:
        runs = [_run(view, Arm.WINNER, seed) for seed in plan.seeds[:_RUNS_ALONE]]
        if all(run is not None and run.is_complete for run in runs):
            return _told(view, plan, FinishOutcome.BETTER)
        return None
    return _compared(view, plan, is_over=False)


@dataclass(frozen=True)
class _Decision:
    """What the first look that came to a decision says."""

    outcome: FinishOutcome
    pairs: int
    after: int
    """Further pairs that are wanted to measure the gain; 0 where none is claimed."""
    alpha: float


def _decision(view: StageView, plan: FinishPlan, against: Arm) -> _Decision | None:
    afters = plan.after or (0,) * len(plan.looks)
    for look, spent, after in zip(plan.looks, plan.alphas, afters, strict=True):
        pairs = _pairs(view, plan.seeds[:look], against)
        if len(pairs) < look:
            return None
        alpha = spent / len(plan.goals)
        found = comparisons(pairs, alpha=alpha, least_gain_frac=plan.least_gain_frac)
        outcome = outcome_of(found, plan)
        if outcome is not FinishOutcome.INCONCLUSIVE or look == plan.looks[-1]:
            return _Decision(outcome, look, after if outcome is FinishOutcome.BETTER else 0, alpha)
    return None


def _compared(view: StageView, plan: FinishPlan, *, is_over: bool) -> FinishVerdict | None:
    """The decision with its figures; None before there is one, or before its gain is measured.

    Args:
        view: The runs.
        plan: What was settled.
        is_over: No more runs are made: the gain is told by what there is.
    """
    against = reference(view)
    decision = None if against is None else _decision(view, plan, against)
    if against is None or decision is None:
        return None
    pairs = _pairs(view, plan.seeds[: decision.pairs + decision.after], against)
    decided, after = pairs[: decision.pairs], pairs[decision.pairs :]
    if len(after) < decision.after and not is_over:
        return None
    found = comparisons(decided, after=after, alpha=decision.alpha, least_gain_frac=plan.least_gain_frac)
    return _told(view, plan, decision.outcome, pairs=len(decided), after=len(after), found=found)


def outcome_of(found: Sequence[Comparison], plan: FinishPlan) -> FinishOutcome:
    """One word from the comparisons: better in a goal, and shown to be worse in neither speed nor reward."""
    known = {comparison.metric: comparison for comparison in found}
    reward = known.get(VALIDATION, known.get(REWARD))
    by_goal: Mapping[str, Comparison | None] = {SPEED: known.get(SPEED), REWARD: reward}
    if any(c is not None and is_worse(c, plan.least_gain_frac) for c in by_goal.values()):
        return FinishOutcome.NOT_BETTER
    outcomes = [c.outcome if (c := by_goal[goal]) else FinishOutcome.INCONCLUSIVE for goal in plan.goals]
    if FinishOutcome.BETTER in outcomes:
        return FinishOutcome.BETTER
    same = all(outcome is FinishOutcome.NOT_BETTER for outcome in outcomes)
    return FinishOutcome.NOT_BETTER if same else FinishOutcome.INCONCLUSIVE


def reference(view: StageView) -> Arm | None:
    """What the winner is compared with: the user's own configuration, or the survivor where that fails."""
    if not _failures(view, Arm.OWN):
        return Arm.OWN
    return None if _plan(view).survivor is None or _failures(view, Arm.SURVIVOR) else Arm.SURVIVOR


def _order(view: StageView, plan: FinishPlan) -> list[tuple[Arm, int]]:
    """The runs up to the next look, in the order in which they start."""
    against = reference(view)
    if against is None:
        return [(Arm.WINNER, seed) for seed in plan.seeds[:_RUNS_ALONE]]
    complete = len(_pairs(view, plan.seeds, against))
    until = next((look for look in plan.looks if look > complete), plan.pairs)
    if decision := _decision(view, plan, against):
        until = decision.pairs + decision.after
    order: list[tuple[Arm, int]] = []
    for place, seed in enumerate(plan.seeds[:until]):
        arms = (against, Arm.WINNER) if place % 2 == 0 else (Arm.WINNER, against)
        order += [(arm, seed) for arm in arms]
    return order


def _told(
    view: StageView,
    plan: FinishPlan,
    outcome: FinishOutcome,
    *,
    pairs: int = 0,
    after: int = 0,
    found: Sequence[Comparison] = (),
    notes: tuple[str, ...] = (),
) -> FinishVerdict:
    own = _failures(view, Arm.OWN)
    told = FinishVerdict(
        outcome=outcome,
        statement="",
        winner=plan.winner,
        reference=None if plan.is_own else reference(view),
        own_failure=_why(own[0]) if own else "",
        comparisons=tuple(found),
        pairs=pairs,
        pairs_planned=plan.pairs,
        pairs_after=after,
        confidence=1.0 - sum(plan.alphas),
        seeds=plan.seeds[: pairs + after],
        steps=plan.steps,
        notes=(*notes, *_notes(view, plan, found)),
    )
    failed = _failures(view, Arm.WINNER)
    runs_alone = sum(_run(view, Arm.WINNER, seed) is not None for seed in plan.seeds)
    return statement(
        told, is_own=plan.is_own, winner_failure=_why(failed[0]) if failed else "", runs=runs_alone
    )


def _notes(view: StageView, plan: FinishPlan, found: Sequence[Comparison]) -> list[str]:
    notes = []
    groups = []
    for arm in Arm:
        speeds = [
            (trial.number, trial.run.tokens_per_s_per_gpu)
            for trial in view.ended
            if trial.candidate.origin == arm.value and trial.run is not None
        ]
        groups.append([(number, speed) for number, speed in speeds if speed])
    drift = machine_drift(groups)
    if drift is not None:
        notes.append(str(drift))
    unseen = [c.metric for c in found if c.outcome is FinishOutcome.BETTER and c.claimed == 0.0]
    if any(metric in plan.goals for metric in unseen):
        notes.append("how large the gain is stays open: the pairs after the decision do not show it")
    metrics = {comparison.metric for comparison in found}
    if found and REWARD in plan.goals and VALIDATION not in metrics:
        notes.append("rewards are training rewards: no validation figures were logged")
    return notes


def _pairs(view: StageView, seeds: Sequence[int], against: Arm) -> list[Pair]:
    """The complete pairs up to the first incomplete one."""
    pairs: list[Pair] = []
    for seed in seeds:
        winner, other = _run(view, Arm.WINNER, seed), _run(view, against, seed)
        if winner is None or other is None or winner.run is None or other.run is None:
            break
        pairs.append((winner.run, other.run))
    return pairs


def _run(view: StageView, arm: Arm, seed: int) -> TrialView | None:
    """The run of this arm and seed that says something, or is in the air."""
    for trial in view.trials:
        is_it = trial.candidate.origin == arm.value and trial.candidate.params.get(DATA_SEED) == seed
        if is_it and not trial.is_void:
            return trial
    return None


def _failures(view: StageView, arm: Arm) -> list[TrialView]:
    failed = (Outcome.FAILED, Outcome.REJECTED)
    return [
        t for t in view.ended if t.candidate.origin == arm.value and t.verdict and t.verdict.outcome in failed
    ]


def _why(trial: TrialView) -> str:
    failure = trial.verdict.failure if trial.verdict else None
    return "fails" if failure is None else f"{failure.kind} in {failure.phase}"


def _plan(view: StageView) -> FinishPlan:
    assert view.plan is not None
    return view.plan
