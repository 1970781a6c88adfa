"""What one change at a time did to the speed, with an interval from the survivor's own noise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.report.findings.intervals import ratio_interval
from autotune.report.findings.stages import ClimbedStage, is_complete, name_of
from autotune.store.stored import StoredTrial

_ONE_CHANGE = re.compile(r"one change from #(?P<start>\d+): (?P<key>\S+) (?P<before>.+) -> (?P<after>.+)")
"""As ladder.speed names such a candidate."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One change against the trial that it was made from."""

    trial: str
    start: str
    key: str
    before: str
    after: str
    gain_frac: float | None
    """Change of tokens/s/GPU; None where the trial did not complete."""
    low_frac: float | None
    high_frac: float | None
    failure: str
    """Failure kind, or outcome, where it did not complete."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        if self.low_frac is None or self.high_frac is None:
            return False
        return self.low_frac > 0.0 or self.high_frac < 0.0


@dataclass(frozen=True, kw_only=True)
class EffectsFinding:
    """Single changes of the speed stage, largest gain first, those without a figure last."""

    noise_frac: float
    """Relative standard deviation of tokens/s/GPU between two runs of one configuration."""
    repeats: int
    """Runs of the survivor that the noise is known from."""
    effects: tuple[Effect, ...]


def effects_finding(speed: ClimbedStage | None) -> EffectsFinding | None:
    """The effects of single changes; None without a measured survivor or without such a change."""
    if speed is None or speed.baseline is None:
        return None
    by_number = {trial.number: trial for trial in speed.trials}
    repeats = {trial.number for trial in speed.starts}
    found = []
    for trial in speed.trials:
        change = _ONE_CHANGE.fullmatch(trial.candidate.origin)
        start = by_number.get(int(change["start"])) if change else None
        if change is None or start is None or trial.verdict is None:
            continue
        # A gain over the survivor is over the median of its repeats, which is known better than one run.
        from_survivor = start.number in repeats
        base = speed.baseline.figures.tokens_per_s_per_gpu if from_survivor else start.objective
        runs = speed.baseline.repeats if from_survivor else 1
        ratio = trial.objective / base if is_complete(trial) and trial.objective and base else None
        interval = ratio_interval(ratio, speed.baseline.throughput_noise_frac, runs) if ratio else None
        found.append(_effect(change.groupdict(), trial, start, ratio, interval))
    if not found:
        return None
    found.sort(key=lambda effect: -math.inf if effect.gain_frac is None else effect.gain_frac, reverse=True)
    noise_frac = speed.baseline.throughput_noise_frac
    return EffectsFinding(noise_frac=noise_frac, repeats=speed.baseline.repeats, effects=tuple(found))


def _effect(
    change: Mapping[str, str],
    trial: StoredTrial,
    start: StoredTrial,
    ratio: float | None,
    interval: tuple[float, float] | None,
) -> Effect:
    verdict = trial.verdict
    assert verdict is not None
    failure = verdict.failure.kind if verdict.failure else verdict.outcome.value
    return Effect(
        trial=name_of(trial),
        start=name_of(start),
        key=change["key"],
        before=change["before"],
        after=change["after"],
        gain_frac=None if ratio is None else ratio - 1.0,
        low_frac=None if interval is None else interval[0] - 1.0,
        high_frac=None if interval is None else interval[1] - 1.0,
        failure="" if is_complete(trial) else failure,
    )
