"""When a trial that still runs can no longer matter: it cannot catch the best, or its curve lies behind.

Pure, from step figures to a sentence or None. Guards (`guards.py`) say that something is wrong; here
nothing is wrong, so the outcome is `ended_early` and never a failure of the candidate.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.judge.intervals import t_critical
from autotune.judge.statistics import last_quarter, noise_frac, quarter_of

SLOWER_THAN_BEST = "slower_than_best"
CURVE_BEHIND = "curve_behind"
KINDS = frozenset({SLOWER_THAN_BEST, CURVE_BEHIND})
"""Kinds of a `GuardStop` that end a trial early without a failure."""

LEAST_STEADY_STEPS = 2
"""One steady step says nothing of its own noise."""

_REACH_ALPHA = 0.01
"""Two-sided: the steps to come lie under their reach with 99.5 %."""

LEAST_FINISHED = 5
"""With fewer finished curves no order of ranks is rarer than 5 %: 4 of them have only 24 orders."""
_CHANCE = 0.05
"""Short and final ranks agree where chance alone would order them so well at most this often."""
_LEAST_SHARE = 1 / 3
"""A curve is looked at from this share of its steps on."""
_LEAST_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class BestSpeed:
    """The speed to catch, with its interval."""

    number: int
    tokens_per_s: float
    low: float
    """Lower end of the interval that its run-to-run noise leaves."""
    step_noise_frac: float
    """Relative spread of single steps in this study; a trial's own is not believed to be smaller."""
    step_noise_freedom: int
    """Degrees of freedom of that spread: steady steps of the repeats, less one for each."""


def slower_than_best(throughputs: Sequence[float], steps_left: int, best: BestSpeed) -> str | None:
    """Why this trial cannot catch the best any more; None while it can, or too little is known.

    With n steady steps of mean m and spread s, the mean of the k steps to come lies under
    m + t s sqrt(1/n + 1/k) with 99.5 % (prediction interval of a future mean, Hahn and Meeker,
    Statistical Intervals, 1991, section 4.8). Neither it nor the steps so far reach `best.low`: nor does
    the whole. A trial that still gets faster is taken at its latest step.

    Args:
        throughputs: tokens/s/GPU of the trial's steady steps so far.
        steps_left: Steps still to come.
        best: The best trial of the study.
    """
    done = len(throughputs)
    if done < LEAST_STEADY_STEPS or steps_left < 1:
        return None
    level = max(statistics.fmean(throughputs), throughputs[-1])
    own = noise_frac(throughputs) or 0.0
    spread = max(own * level, statistics.stdev(throughputs), best.step_noise_frac * level)
    freedom = done - 1 + max(best.step_noise_freedom, 0)
    reach = level + t_critical(_REACH_ALPHA, freedom) * spread * math.sqrt(1.0 / done + 1.0 / steps_left)
    if reach >= best.low:
        return None
    return (
        f"{statistics.median(throughputs):.4g} tokens/s/GPU over {done} steady steps; with its noise the"
        f" {steps_left} steps left reach {reach:.4g} at most, #{best.number} has {best.tokens_per_s:.4g}"
        f" (at least {best.low:.4g})"
    )


def curve_behind(rewards: Sequence[float], steps: int, finished: Sequence[Sequence[float]]) -> str | None:
    """Why this curve will not end among the better half; None while it may, or nobody can tell.

    The median stopping rule (Golovin et al., Google Vizier, KDD 2017, section 3.2) with two brakes: it
    holds only where the ranks at this step foretold the final ranks in this very study, and the curve
    has to lie under the median by twice its own standard error.

    Args:
        rewards: Mean reward of each step so far.
        steps: Steps of a whole trial.
        finished: Whole reward curves of the study's completed trials.
    """
    done = len(rewards)
    whole = [curve for curve in finished if len(curve) >= steps]
    if done < max(_LEAST_STEPS, math.ceil(steps * _LEAST_SHARE)) or done >= steps:
        return None
    short = [tail_mean(curve[:done]) for curve in whole]
    if not ranks_agree(short, [tail_mean(curve) for curve in whole]):
        return None
    own, middle = tail_mean(rewards), statistics.median(short)
    error = _standard_error(rewards)
    if own + 2.0 * error >= middle:
        return None
    return (
        f"reward {own:.3f} +- {error:.3f} at step {done}, under the median {middle:.3f} of {len(whole)}"
        " finished trials, whose ranks at this step foretold their final ranks"
    )


def ranks_agree(short: Sequence[float], final: Sequence[float]) -> bool:
    """Whether short values foretell final ranks: Kendall's test, one-sided, exact.

    False with fewer than `LEAST_FINISHED` pairs. A tie counts as disagreement.
    """
    count = len(short)
    if count < LEAST_FINISHED:
        return False
    disagreeing = sum(
        (short[i] - short[j]) * (final[i] - final[j]) <= 0.0 for i in range(count) for j in range(i)
    )
    return chance_of_so_few(disagreeing, count) <= _CHANCE


def chance_of_so_few(inversions: int, count: int) -> float:
    """Share of the orders of `count` things with at most `inversions` inverted pairs.

    Counted by insertion: the k-th thing adds 0 to k-1 inversions (Knuth, TAOCP 3, 5.1.1).
    """
    orders = [1]
    for things in range(2, count + 1):
        longer = [0] * (len(orders) + things - 1)
        for so_far, ways in enumerate(orders):
            for added in range(things):
                longer[so_far + added] += ways
        orders = longer
    return sum(orders[: inversions + 1]) / sum(orders)


def tail_mean(values: Sequence[float]) -> float:
    """Mean of the last quarter, at least three values: what the stage's objective does at the end."""
    return statistics.fmean(last_quarter(values))


def _standard_error(values: Sequence[float]) -> float:
    """Of `tail_mean`: differences of neighbouring steps hold the noise and hardly any of the trend."""
    steps = [later - earlier for earlier, later in itertools.pairwise(values)]
    return math.sqrt(statistics.fmean(step * step for step in steps) / 2.0 / quarter_of(len(values)))
