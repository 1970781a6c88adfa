"""One whole study over replayed trials: the ladder's speed stage picks a winner, the finish judges it.

Decided by the product's own functions throughout: `judge_attempt`, the speed stage's moves, baseline and
acceptance, `stage_result`, and the finish's moves and verdict. Only launching is replaced.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.job.model import FinishSection, FinishStage, GuardSection, SpeedStage, StageSection
from autotune.job.resolved_space import ResolvedParameter, ResolvedSpace
from autotune.job.space import SearchSpace
from autotune.judge.comparison import SPEED
from autotune.judge.evidence import Evidence
from autotune.judge.run_figures import run_figures
from autotune.judge.verdict import judge_attempt
from autotune.ladder import acceptance, finish, strategy
from autotune.ladder.objective import objective
from autotune.ladder.view import Finish, Propose, StageView, TrialView
from autotune.records import (
    Arm,
    AttemptEnd,
    Candidate,
    Comparison,
    FinishOutcome,
    FinishPlan,
    FinishVerdict,
    MetricRow,
    Overrides,
    StageName,
    Verdict,
)
from benchmarks.honesty.replay import Replay

_KNOBS, _CHOICES = ("a", "b", "c", "d"), (1, 2, 3, 4)
_SPACE = ResolvedSpace(
    name="honesty",
    parameters=tuple(
        ResolvedParameter(key=f"knob.{name}", kind="categorical", choices=_CHOICES, current=1)
        for name in _KNOBS
    ),
    facts={},
)
_ANY_SPACE = SearchSpace.model_construct(name="honesty", parameters={})


@dataclass(frozen=True)
class Study:
    """What one study came to."""

    verdict: FinishVerdict
    searched_gain: float
    """The winner's gain by the search's own figures, as a tuner without a finish would tell it."""
    true_gain: float
    """What was planted in the winner; 0 where the winner is the start itself."""
    runs: int
    """Runs of the finish."""

    @property
    def claims(self) -> bool:
        """Whether the winner is called better."""
        return self.verdict.outcome is FinishOutcome.BETTER

    @property
    def claimed_gain(self) -> float | None:
        """The gain that the verdict claims; None where it claims none."""
        return self._speed(lambda comparison: comparison.claimed) if self.claims else None

    @property
    def estimate(self) -> float | None:
        """The finish's plain estimate, whatever the verdict is; None where nothing was compared."""
        return self._speed(lambda comparison: comparison.gain)

    def _speed(self, what: Callable[[Comparison], float]) -> float | None:
        return next((what(c) for c in self.verdict.comparisons if c.metric == SPEED), None)


def run_study(replay: Replay, gain: float, *, trials: int, steps: int, section: FinishSection) -> Study:
    """One study in a space where every change of the start brings `gain`, or nothing matters (0).

    So the winner has the gain, however blind the search is, and what is measured is the finish.
    """
    view = _search(replay, gain, SpeedStage(search_space=_ANY_SPACE, steps=steps, trials=trials))
    result = acceptance.stage_result(
        view,
        strategy.baseline(view),
        carried={},
        overrides_of={trial.number: trial.candidate.params for trial in view.trials},
    )
    assert result.baseline is not None
    assert result.best_figures is not None
    true_gain = gain if _is_planted(result.overrides) else 0.0
    runs = _confirm(replay, true_gain, _plan(result.overrides, section, view.section.seed))
    ours, theirs = result.best_figures.tokens_per_s_per_gpu, result.baseline.tokens_per_s_per_gpu
    assert ours is not None
    assert theirs is not None
    return Study(finish.final_verdict(runs), ours / theirs - 1.0, true_gain, len(runs.trials))


def _search(replay: Replay, gain: float, section: SpeedStage) -> StageView:
    start = Candidate(params=_SPACE.user_params(), origin="survivor, repeated")
    view = StageView(stage=StageName.SPEED, section=section, space=_SPACE, first=(start,))
    chance = random.Random(len(view.trials))
    while not isinstance(move := strategy.next_move(view), Finish):
        # Where nothing matters, it does not matter who samples.
        candidate = move.candidate if isinstance(move, Propose) else _any_untried(view, chance)
        planted = gain if _is_planted(candidate.params) else 0.0
        verdict, _ = _trial(replay, planted, section)
        trial = TrialView(
            number=len(view.trials),
            candidate=candidate,
            verdict=verdict,
            objective=objective(view.stage, verdict),
        )
        view = replace(view, trials=(*view.trials, trial))
        accepted = acceptance.is_accepted(section, verdict, strategy.baseline(view))
        view = replace(view, trials=(*view.trials[:-1], replace(trial, accepted=accepted)))
    return view


def _confirm(replay: Replay, true_gain: float, plan: FinishPlan) -> StageView:
    section = FinishStage(search_space=_ANY_SPACE, steps=plan.steps, trials=2 * len(plan.seeds) + 1)
    view = StageView(stage=StageName.FINISH, section=section, space=_SPACE, plan=plan)
    while isinstance(move := strategy.next_move(view), Propose):
        planted = true_gain if move.candidate.origin == Arm.WINNER.value else 0.0
        verdict, rows = _trial(replay, planted, section)
        figures = run_figures(rows, warmup_steps=None, validation_every=None, peak_memory_gb=None)
        trial = TrialView(number=len(view.trials), candidate=move.candidate, verdict=verdict, run=figures)
        view = replace(view, trials=(*view.trials, trial))
    return view


def _trial(replay: Replay, gain: float, section: StageSection) -> tuple[Verdict, list[MetricRow]]:
    rows = replay.rows(section.steps, 1.0 + gain)
    evidence = Evidence.from_events([*rows, AttemptEnd(at_s=rows[-1].at_s, exit_code=0, asked=False)])
    verdict = judge_attempt(
        evidence, steps_asked=section.steps, warmup_steps=section.warmup_steps, guards=GuardSection()
    )
    return verdict, rows


def _plan(winner: Overrides, section: FinishSection, seed: int) -> FinishPlan:
    looks = finish.looks_of(section.repeats)
    after = finish.after_of(looks, section.repeats_after, math.inf)
    return FinishPlan(
        pairs=section.repeats,
        looks=looks,
        alphas=finish.alphas_of(looks, 1.0 - section.confidence),
        after=after,
        least_gain_frac=section.least_gain_frac,
        goals=(SPEED,),
        seeds=finish.fresh_seeds([seed], finish.most_pairs(looks, after)),
        steps=section.steps or 2,
        validation=False,
        winner=winner,
        survivor=None,
        is_own=dict(winner) == _SPACE.user_params(),
    )


def _is_planted(params: Overrides) -> bool:
    return dict(params) != _SPACE.user_params()


def _any_untried(view: StageView, chance: random.Random) -> Candidate:
    while True:
        params = {parameter.key: chance.choice(parameter.choices) for parameter in _SPACE.parameters}
        candidate = Candidate(params=params, origin="sampler")
        if not view.has_tried(candidate):
            return candidate
