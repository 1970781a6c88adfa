"""A recorded landscape: what real trials of one job did, candidate by candidate, repeat by repeat.

A file holds JSON lines (plain, .gz or .xz), one for each run of a candidate:
    {"job", "params": {dotted: value}, "outcome", "kind", "phase", "step_s": [...], "tokens": [...],
     "reward": [...], "kl": [...], "peak_gb": {phase: gb}, "start_s", "cold_key", "session_number"}
Lists have one value for each finished step. The first line of a job is a run of its own configuration.
A line without `params` is provenance. `"synthetic": true` marks what was made up for a test.
"""

from __future__ import annotations

import gzip
import json
import lzma
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.job.resolved_space import ResolvedParameter, ResolvedSpace
from autotune.records import Overrides, Value
from autotune.search.points import point_key
from autotune.verl_plugin.warm.live_keys import ENGINE_KEYS

WARMUP_STEPS = 1


class Start(Enum):
    """What came before the first step of a run."""

    COLD = "a new process"
    ENGINE = "an open session, but another rollout engine"
    WARM = "an open session"


@dataclass(frozen=True)
class Run:
    """One recorded run of a candidate."""

    outcome: str
    kind: str | None
    phase: str | None
    step_s: tuple[float, ...]
    tokens: tuple[float, ...]
    reward: tuple[float | None, ...]
    kl: tuple[float | None, ...]
    peak_gb: Mapping[str, float]
    start_s: float
    """From its launch to its first step, as it was recorded."""
    start: Start
    cold_key: str

    @property
    def throughputs(self) -> list[float]:
        """tokens/s of each step."""
        return [tokens / step_s for tokens, step_s in zip(self.tokens, self.step_s, strict=True)]

    @property
    def is_complete(self) -> bool:
        """Whether it made all its steps."""
        return self.outcome == "completed" and len(self.step_s) > WARMUP_STEPS


@dataclass(frozen=True)
class Configuration:
    """All runs of one candidate."""

    params: Overrides
    runs: tuple[Run, ...]

    @cached_property
    def tokens_per_s(self) -> float | None:
        """Its true speed as far as it is known: the mean over the runs; None where one of them failed."""
        if not all(run.is_complete for run in self.runs):
            return None
        return statistics.fmean(statistics.median(run.throughputs[WARMUP_STEPS:]) for run in self.runs)


@dataclass(frozen=True)
class Landscape:
    """Everything that was recorded of one job."""

    job: str
    configurations: tuple[Configuration, ...]
    is_synthetic: bool
    provenance: tuple[Mapping[str, Any], ...] = ()
    _nearest: dict[Any, Configuration] = field(default_factory=dict, compare=False, repr=False)

    @property
    def start(self) -> Configuration:
        """The job's own configuration."""
        return self.configurations[0]

    @cached_property
    def best(self) -> float:
        """The largest true speed, in tokens/s.

        Raises:
            ValueError: Nothing in this landscape completed.
        """
        return max(c.tokens_per_s for c in self.configurations if c.tokens_per_s is not None)

    def start_s(self, start: Start) -> float:
        """Median seconds from a launch to the first step, by what came before; a cold start's where none was seen."""
        seen = [run.start_s for c in self.configurations for run in c.runs if run.start is start]
        return statistics.median(seen) if seen or start is Start.COLD else self.start_s(Start.COLD)

    @cached_property
    def steps(self) -> int:
        """Steps of a whole run."""
        return max(len(run.step_s) for c in self.configurations for run in c.runs)

    @cached_property
    def space(self) -> ResolvedSpace:
        """The space that was recorded: every value seen, in order, with the conditions that the data show."""
        keys = list(dict.fromkeys(key for c in self.configurations for key in c.params))
        return ResolvedSpace(name=self.job, parameters=tuple(map(self._parameter, keys)), facts={})

    def nearest(self, params: Overrides) -> Configuration:
        """The configuration itself where it was recorded, else the one that differs least from it."""
        key = point_key(params)
        if key not in self._nearest:
            self._nearest[key] = min(self.configurations, key=lambda c: self._distance(c.params, params))
        return self._nearest[key]

    def holds(self, params: Overrides) -> bool:
        """Whether this very candidate was recorded."""
        return point_key(params) in self._keys

    @cached_property
    def _keys(self) -> frozenset[Any]:
        return frozenset(point_key(c.params) for c in self.configurations)

    @cached_property
    def _values(self) -> dict[str, list[Value]]:
        keys = dict.fromkeys(key for c in self.configurations for key in c.params)
        return {
            key: _ordered([c.params[key] for c in self.configurations if key in c.params]) for key in keys
        }

    def _parameter(self, key: str) -> ResolvedParameter:
        return ResolvedParameter(
            key=key,
            kind="categorical",
            choices=tuple(self._values[key]),
            when=self._condition(key),
            current=self.start.params.get(key),
        )

    def _condition(self, key: str) -> str | None:
        """`other == value or ...` where `key` is there for some values of another parameter alone."""
        if all(key in c.params for c in self.configurations):
            return None
        for other, values in self._values.items():
            present = {
                json.dumps(c.params[other])
                for c in self.configurations
                if other in c.params and key in c.params
            }
            absent = {json.dumps(c.params.get(other)) for c in self.configurations if key not in c.params}
            if other != key and present and not present & absent:
                shown = [value for value in values if json.dumps(value) in present]
                return " or ".join(f"{other.rsplit('.', 1)[-1]} == {_literal(value)}" for value in shown)
        return None

    def _distance(self, left: Overrides, right: Overrides) -> float:
        """Steps apart in each parameter, as a share of its range; a missing or other kind of value counts 1."""
        apart = 0.0
        for key in {*left, *right}:
            if key not in left or key not in right:
                apart += 1.0
            elif left[key] != right[key]:
                values = self._values[key]
                near = left[key] in values and right[key] in values and len(values) > 2
                apart += (
                    abs(values.index(left[key]) - values.index(right[key])) / (len(values) - 1)
                    if near
                    else 1.0
                )
        return apart


def read(path: Path) -> dict[str, Landscape]:
    """The landscapes of a file, by job.

    Raises:
        ValueError: A line that is not of this format, with its number.
    """
    openers = {".gz": gzip.open, ".xz": lzma.open}
    runs: dict[str, dict[Any, tuple[Overrides, list[Run]]]] = {}
    synthetic: set[str] = set()
    provenance: list[Mapping[str, Any]] = []
    engines: dict[str, Any] = {}
    with openers.get(path.suffix, open)(path, "rt", encoding="utf-8") as lines:  # type: ignore[operator]
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line)
                if "params" not in value:
                    provenance.append(value)
                    continue
                by_key = runs.setdefault(value["job"], {})
                by_key.setdefault(point_key(value["params"]), (value["params"], []))[1].append(
                    _run(value, engines)
                )
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: no run of a landscape ({error!r})") from error
            if value.get("synthetic"):
                synthetic.add(value["job"])
    return {
        job: Landscape(
            job=job,
            configurations=tuple(Configuration(params, tuple(of)) for params, of in by_key.values()),
            is_synthetic=job in synthetic or any(p.get("synthetic") for p in provenance),
            provenance=tuple(provenance),
        )
        for job, by_key in runs.items()
    }


def engine_of(params: Overrides) -> tuple[Value, ...]:
    """What a rollout engine is started with; another one is another engine."""
    return tuple(params.get(key) for key in ENGINE_KEYS)


def _run(value: Mapping[str, Any], engines: dict[str, Any]) -> Run:
    """`engines`: by job, the engine of the line before; brought up to this one."""
    engine, before = engine_of(value["params"]), engines.get(value["job"])
    engines[value["job"]] = engine
    start = Start.COLD
    if value.get("session_number"):
        start = Start.WARM if engine == before else Start.ENGINE
    return Run(
        outcome=value["outcome"],
        kind=value.get("kind"),
        phase=value.get("phase"),
        step_s=tuple(value["step_s"]),
        tokens=tuple(value["tokens"]),
        reward=tuple(value.get("reward", ())),
        kl=tuple(value.get("kl", ())),
        peak_gb=dict(value.get("peak_gb") or {}),
        start_s=float(value["start_s"]),
        start=start,
        cold_key=str(value["cold_key"]),
    )


def _ordered(values: Sequence[Value]) -> list[Value]:
    distinct = list({json.dumps(value): value for value in values}.values())
    if all(isinstance(value, (int, float)) for value in distinct):
        return sorted(distinct, key=float)  # type: ignore[arg-type]
    return distinct


def _literal(value: Value) -> str:
    """As the expressions of search spaces write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else repr(value)
