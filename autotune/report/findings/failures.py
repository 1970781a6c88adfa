"""Failures by kind: how often, at what cost, and one decisive line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.records import FailureGroup
from autotune.report.findings.stages import name_of
from autotune.store.stored import StoredTrial


@dataclass(frozen=True, kw_only=True)
class FailureCount:
    """All trials that one kind of failure ended."""

    kind: str
    group: FailureGroup
    trials: tuple[str, ...]
    """Their names, in the order of their start."""
    phases: tuple[str, ...]
    gpu_s: float
    cause: str
    """The first one's, as its decisive line is."""
    line_number: int | None
    line: str
    """Empty where figures or silence decided."""


def failure_counts(trials: Sequence[StoredTrial], device_s: Mapping[int, float]) -> tuple[FailureCount, ...]:
    """One entry a kind, the most frequent first."""
    by_kind: dict[str, list[StoredTrial]] = {}
    for trial in trials:
        if trial.verdict is not None and trial.verdict.failure is not None:
            by_kind.setdefault(trial.verdict.failure.kind, []).append(trial)
    ordered = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_count(kind, ended, device_s) for kind, ended in ordered)


def _count(kind: str, trials: Sequence[StoredTrial], device_s: Mapping[int, float]) -> FailureCount:
    failures = [trial.verdict.failure for trial in trials if trial.verdict and trial.verdict.failure]
    # One with a line says more than one without.
    shown = next((failure for failure in failures if failure.line), failures[0])
    return FailureCount(
        kind=kind,
        group=shown.group,
        trials=tuple(name_of(trial) for trial in trials),
        phases=tuple(dict.fromkeys(failure.phase for failure in failures if failure.phase)),
        gpu_s=sum(device_s.get(trial.id, 0.0) for trial in trials),
        cause=shown.cause,
        line_number=shown.line_number,
        line=shown.line,
    )
