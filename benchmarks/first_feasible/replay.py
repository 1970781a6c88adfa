"""A launcher that plays recorded peaks: to the controller an attempt like any other, without a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from autotune.clock import Clock
from autotune.judge.kinds import oom_kind
from autotune.records import AttemptEnd, Event, LogEvidence, MemorySample, MetricRow, PhaseMark
from autotune.trial.request import AttemptRequest
from benchmarks.first_feasible.landscape import PHASES, Landscape

_OOM_LEVEL = 4
_OOM_LINE = "RuntimeError: DefaultCPUAllocator: can't allocate memory (replayed: {gb:.3f} GB in {phase})"


@dataclass
class ReplayLauncher:
    """Runs one attempt at a time on a device of `capacity_gb`."""

    landscape: Landscape
    capacity_gb: float
    clock: Clock
    launched: int = 0
    _events: list[tuple[str, Event]] = field(default_factory=list)

    def slots(self, gpus: int = 1) -> int:
        """One, when nothing waits to be polled."""
        return 0 if self._events else 1

    def largest(self) -> int:
        """A replayed attempt holds no devices, so it may have any size."""
        return 1 << 16

    def warm_keys(self) -> frozenset[str]:
        """None: what a session would save, the script says."""
        return frozenset()

    def start(self, request: AttemptRequest) -> None:
        """Plays the attempt; `poll` tells it at once."""
        self.launched += 1
        tree = _tree(request.config_text)
        steps = _value(tree, "trainer.total_training_steps")
        peaks_gb = self.landscape.peaks_gb(lambda key: _value(tree, key))
        self._events = [(request.attempt_id, event) for event in self._played(peaks_gb, steps)]

    def poll(self) -> list[tuple[str, Event]]:
        """All events of the attempt that was started last."""
        events, self._events = self._events, []
        return events

    def end(self, attempt_id: str, reason: str, spare_s: float | None = None) -> None:
        """Nothing: what was started has ended already."""

    def close(self) -> None:
        """Nothing is held."""

    def _played(self, peaks_gb: Mapping[str, float], steps: int) -> list[Event]:
        events: list[Event] = []
        at_s = 0.0
        for step in range(1, steps + 1):
            for phase in PHASES:
                at_s += 0.1
                events.append(PhaseMark(phase=phase, at_s=at_s))
                if peaks_gb[phase] > self.capacity_gb:
                    return [*events, self._oom(phase, peaks_gb[phase], at_s), _end(at_s, exit_code=1)]
                events.append(
                    MemorySample(
                        at_s=at_s,
                        phase=phase,
                        device="rank:0",
                        used_gb=peaks_gb[phase],
                        capacity_gb=self.capacity_gb,
                    )
                )
            events.append(MetricRow(step=step, at_s=at_s, values={"critic/rewards/mean": 0.5}))
        return [*events, _end(at_s, exit_code=0)]

    def _oom(self, phase: str, gb: float, at_s: float) -> LogEvidence:
        return LogEvidence(
            line_number=1,
            text=_OOM_LINE.format(gb=gb, phase=phase),
            kind=oom_kind(phase),
            phase=phase,
            level=_OOM_LEVEL,
            at_s=at_s,
        )


def _end(at_s: float, *, exit_code: int) -> AttemptEnd:
    return AttemptEnd(at_s=at_s, exit_code=exit_code, asked=False)


@lru_cache(maxsize=256)
def _tree(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tree


def _value(tree: Mapping[str, Any], key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        node = node[part]
    return node


class NothingRefused:
    """Stands where verl's own validation would be asked: the space holds nothing that verl refuses."""

    def validate(self, config_yaml: str) -> list[str]:
        """No refusal."""
        return []

    def longest_prompts(self, config_yaml: str, rows: int, target: Path) -> int:
        """No certificate is replayed."""
        return rows
