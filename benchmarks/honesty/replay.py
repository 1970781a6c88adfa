"""Made-up trials out of recorded ones: whole stretches of real steps, and real noise between runs."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.judge.warmup import warmup_steps
from autotune.records import MetricRow

RECORDED = Path(__file__).with_name("recorded_runs.json")
_BLOCK = 3
"""Steps of one stretch: what one step leaves to the next (caches, a busy machine) stays together."""
_LEAST_STEADY = 3


@dataclass(frozen=True)
class Step:
    """One recorded step."""

    step_s: float
    tokens: float
    prompt_tokens: float
    response_tokens: float


@dataclass(frozen=True)
class Run:
    """One recorded trial, its times scaled so that its steady steps make 1000 tokens/s at the median."""

    name: str
    group: str
    warm_up: tuple[Step, ...]
    steady: tuple[Step, ...]
    tokens_per_s: float
    """At the median of its steady steps, as it was recorded."""


@dataclass(frozen=True)
class Noise:
    """What a replayed run adds to a recorded one."""

    name: str
    between_runs: float
    """Standard deviation of a run's log level."""
    drift_frac: float = 0.0
    """Relative change of the machine's speed over a hundred runs, along a straight line."""


def recorded_runs() -> list[Run]:
    """The runs of the recording that have steps to draw from."""
    text = json.loads(RECORDED.read_text(encoding="ascii"))
    runs = [_run(one["name"], one["group"], [Step(*step) for step in one["steps"]]) for one in text["runs"]]
    return [run for run in runs if len(run.steady) >= _LEAST_STEADY]


def between_runs(runs: Sequence[Run]) -> tuple[float, int]:
    """Standard deviation of the log level of runs of one configuration, and its degrees of freedom.

    Pooled over the groups with more than one run. It contains what few steps leave unknown of each
    level, which the replay adds once more: too much noise rather than too little.
    """
    squares, df = 0.0, 0
    for group in sorted({run.group for run in runs}):
        logs = [math.log(run.tokens_per_s) for run in runs if run.group == group]
        if len(logs) > 1:
            squares += statistics.variance(logs) * (len(logs) - 1)
            df += len(logs) - 1
    return (math.sqrt(squares / df), df) if df else (0.0, 0)


class Replay:
    """Draws trials. Two trials share nothing, though real ones of one seed share their data: noise to spare."""

    def __init__(self, runs: Sequence[Run], noise: Noise, seed: int) -> None:
        self._runs = runs
        self._noise = noise
        self._random = random.Random(seed)
        self._place = 0

    def rows(self, steps: int, speed: float) -> list[MetricRow]:
        """The metric rows of one trial that is `speed` times as fast as the recorded ones."""
        run = self._random.choice(self._runs)
        drift = 1.0 + self._noise.drift_frac * self._place / 100
        self._place += 1
        level = speed * drift * math.exp(self._random.gauss(0.0, self._noise.between_runs))
        drawn = [*run.warm_up[: max(steps // 3, 1)]]
        while len(drawn) < steps:
            start = self._random.randrange(len(run.steady))
            # Around the end, so that every step is drawn as often as any other.
            drawn += [run.steady[(start + index) % len(run.steady)] for index in range(_BLOCK)]
        return [_row(number, step, level) for number, step in enumerate(drawn[:steps], 1)]


def _run(name: str, group: str, steps: list[Step]) -> Run:
    cut = warmup_steps([step.step_s for step in steps])
    warm_up, steady = steps[:cut], steps[cut:]
    speed = statistics.median(step.tokens / step.step_s for step in steady)
    scale = speed / 1000.0
    scaled = [
        Step(step.step_s * scale, step.tokens, step.prompt_tokens, step.response_tokens)
        for step in (*warm_up, *steady)
    ]
    return Run(name, group, tuple(scaled[:cut]), tuple(scaled[cut:]), speed)


def _row(number: int, step: Step, level: float) -> MetricRow:
    step_s = step.step_s / level
    values: dict[str, float | None] = {
        "perf/time_per_step": step_s,
        "timing_s/step": step_s,
        "perf/total_num_tokens": step.tokens,
        "perf/throughput": step.tokens / step_s,
        "prompt_length/mean": step.prompt_tokens,
        "response_length/mean": step.response_tokens,
        "critic/rewards/mean": 0.5,
        "actor/grad_norm": 1.0,
        "actor/kl_loss": 0.08,
    }
    return MetricRow(step=number, at_s=60.0 + number * step_s, values=values)
