"""What a stage's strategy sees, and what it may answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Union

from autotune.job.model import StageSection
from autotune.job.space_resolution import ResolvedSpace
from autotune.judge.drift import Drift
from autotune.judge.run_figures import RunFigures
from autotune.ladder.folds import Folds
from autotune.records import Candidate, Figures, FinishPlan, Outcome, StageName, Verdict
from autotune.search.moves import is_among
from autotune.search.points import Points, point_key

CLEARLY = 2.0
"""Standard deviations between runs by which a trial has to be better to count as better."""
_PROPOSED_AT_MOST = 5
"""Times the stage's trials that candidates are proposed: it ends although nearly all are rejected."""


@dataclass(frozen=True, kw_only=True)
class TrialView:
    """One trial of the stage; `verdict` is None while it runs."""

    number: int
    candidate: Candidate
    verdict: Verdict | None = None
    objective: float | None = None
    accepted: bool = False
    rewards: tuple[float, ...] = ()
    """critic/rewards/mean of each step, NaN left out."""
    kls: tuple[float, ...] = ()
    run: RunFigures | None = None
    """Of a completed run of the finish: what it contributes to the comparison."""

    @cached_property
    def key(self) -> Hashable:
        """What runs of the same configuration share."""
        return point_key(self.candidate.params)

    @property
    def is_void(self) -> bool:
        """Ended by the machine's or the user's fault, or from outside: says nothing of the configuration."""
        return self.verdict is not None and self.verdict.outcome in (
            Outcome.INFRASTRUCTURE,
            Outcome.USER_FAULT,
            Outcome.STOPPED,
        )

    @property
    def is_rejected(self) -> bool:
        """Refused before launch: it cost nothing."""
        return self.verdict is not None and self.verdict.outcome is Outcome.REJECTED

    @property
    def is_complete(self) -> bool:
        """Ran all its steps with finite figures."""
        return self.verdict is not None and self.verdict.outcome is Outcome.COMPLETED


@dataclass(frozen=True, kw_only=True)
class StageView:
    """A stage at one moment: what was asked, what was tried, what came down the ladder."""

    stage: StageName
    section: StageSection
    space: ResolvedSpace
    trials: tuple[TrialView, ...] = ()
    first: tuple[Candidate, ...] = field(default=())
    """Candidates carried over from the stage before; the best one is the baseline."""
    plan: FinishPlan | None = None
    """Of the finish: what was settled before its first run."""
    folds: Folds = field(default_factory=Folds, compare=False, repr=False)

    def with_trial(self, trial: TrialView) -> StageView:
        """The stage with a trial that is new or has changed; `trials` are in the order of their numbers.

        What this view has worked out of the other trials is taken over: a long stage is not looked
        through again for each change.
        """
        before = self.find(trial.number)
        after = replace(self, trials=_with(self.trials, trial, True))
        is_between = before is None and after.trials[-1] is not trial
        if is_between or (before is not None and before.verdict is not None):
            after = replace(after, folds=Folds())
        worked_out = {
            "running": _with(self.running, trial, trial.verdict is None),
            "ended": _with(self.ended, trial, trial.verdict is not None),
            "repeats": _with(self.repeats, trial, self.is_start(trial) and not trial.is_void),
            "rejected": self.rejected + trial.is_rejected - (before is not None and before.is_rejected),
        }
        if before is None and not trial.is_void:
            worked_out["tried"] = self.tried.with_point(trial.candidate.params, trial.key)
        elif before is not None and (before.key, before.is_void) == (trial.key, trial.is_void):
            worked_out["tried"] = self.tried
        vars(after).update(worked_out)  # where a cached property looks first
        return after

    def find(self, number: int) -> TrialView | None:
        """The trial of this number; None where the stage has none."""
        place = bisect_left(self.trials, number, key=_number)
        found = self.trials[place : place + 1]
        return found[0] if found and found[0].number == number else None

    def trial(self, number: int) -> TrialView:
        """The trial of this number, which there is."""
        found = self.find(number)
        assert found is not None
        return found

    @property
    def start(self) -> Candidate:
        """What gains are measured against: the best candidate carried over, else the user's own."""
        if self.first:
            return self.first[0]
        return Candidate(params=self.space.user_params(), origin="user configuration")

    def is_start(self, trial: TrialView) -> bool:
        """Whether `trial` is a run of `start`."""
        return trial.key == self.start_key

    @cached_property
    def start_key(self) -> Hashable:
        """What runs of `start` share."""
        return point_key(self.start.params)

    def objective_within_limit(self, trial: TrialView) -> float | None:
        """The objective of a completed trial whose peak memory keeps the section's limit; None for others."""
        if not trial.is_complete or trial.verdict is None:
            return None
        peak = trial.verdict.figures.peak_memory_frac
        return trial.objective if peak is None or peak <= self.section.peak_memory_frac else None

    def has_tried(self, candidate: Candidate) -> bool:
        """Whether a trial of `candidate` ran, or runs, that says something of it."""
        return is_among(candidate.params, self.tried)

    @cached_property
    def tried(self) -> Points:
        """Parameter values of the trials so far, but for those that somebody else's fault ended."""
        counted = [trial for trial in self.trials if not trial.is_void]
        return Points((t.candidate.params for t in counted), keys=(t.key for t in counted))

    @cached_property
    def repeats(self) -> tuple[TrialView, ...]:
        """Runs of `start`, the void ones left out."""
        return tuple(t for t in self.trials if t.key == self.start_key and not t.is_void)

    @cached_property
    def running(self) -> tuple[TrialView, ...]:
        """Trials without a verdict."""
        return tuple(trial for trial in self.trials if trial.verdict is None)

    @cached_property
    def ended(self) -> tuple[TrialView, ...]:
        """Trials with a verdict, in the order of their numbers."""
        return tuple(trial for trial in self.trials if trial.verdict is not None)

    @cached_property
    def rejected(self) -> int:
        """Trials that were refused before launch and so cost nothing."""
        return sum(trial.is_rejected for trial in self.trials)

    @property
    def is_full(self) -> bool:
        """Whether the stage's trials are used up; rejected ones do not count, up to a multiple of them."""
        trials, made = self.section.trials, len(self.trials)
        return made - self.rejected >= trials or made >= _PROPOSED_AT_MOST * trials


def _number(trial: TrialView) -> int:
    return trial.number


def _with(trials: tuple[TrialView, ...], trial: TrialView, belongs: bool) -> tuple[TrialView, ...]:
    """`trials` with `trial` at its place, instead of an earlier state of it; without it if not `belongs`."""
    place = bisect_left(trials, trial.number, key=_number)
    is_there = place < len(trials) and trials[place].number == trial.number
    if not belongs and not is_there:
        return trials
    return (*trials[:place], *((trial,) if belongs else ()), *trials[place + is_there :])


@dataclass(frozen=True)
class Propose:
    """Try this one next."""

    candidate: Candidate


@dataclass(frozen=True)
class Sample:
    """Let the sampler choose."""


@dataclass(frozen=True)
class Wait:
    """A running trial decides what is worth trying; leave the slot idle."""


@dataclass(frozen=True)
class Finish:
    """The stage is over as soon as its running trials are."""

    reason: str


Move = Union[Propose, Sample, Wait, Finish]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What gains are measured against: the medians over the repeats of one configuration."""

    figures: Figures
    throughput_noise_frac: float
    """Relative spread of tokens/s/GPU to be expected between two runs of one configuration."""
    repeats: int
    drift: Drift | None = None
    """A trend of the machine's speed over the repeats."""
    reward_std_degrees: int = 0
    """Of speed: degrees of freedom of `figures.reward_std`, which all repeats share."""
    left_band_at_step: int | None = None
    """Of quality: the step in which its KL passed the band's upper end; its reward is the one until then."""
