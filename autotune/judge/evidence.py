"""Everything known of one attempt so far: a fold over its events."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autotune.judge import phases
from autotune.records import (
    AttemptEnd,
    Event,
    GuardStop,
    LogEvidence,
    MemorySample,
    MetricRow,
    PhaseMark,
    Progress,
)

_LOG_KEPT = 50
_MARKS_KEPT = 1000
_TROUGHS_KEPT = 64


@dataclass
class Evidence:
    """What an attempt reported. Add events in time order; read the attributes, never set them."""

    rows: list[MetricRow] = field(default_factory=list)
    """One per training step; verl's row 0 (validation before training) is left out."""
    phase: str = phases.PHASES[0]
    phase_started_s: float = 0.0
    last_sign_s: float = 0.0
    """Last sign of life: new phase, metric row or new console output."""
    last_step_sign_s: float = 0.0
    """Last new phase or metric row; console output does not count."""
    first_step_s: float | None = None
    """When the first step began."""
    peaks_gb: dict[tuple[str, str], float] = field(default_factory=dict)
    """Largest use by (device, phase)."""
    capacity_gb: dict[str, float] = field(default_factory=dict)
    """By device; devices of unknown capacity are left out."""
    last_used_gb: dict[str, float] = field(default_factory=dict)
    """Latest sample by device."""
    troughs_gb: dict[str, deque[float]] = field(default_factory=dict)
    """By device, the smallest use within each of the last steps."""
    host_gb: float = 0.0
    """Largest resident memory of the whole process tree."""
    log: list[LogEvidence] = field(default_factory=list)
    """Best first: lower level, then earlier line."""
    stop: GuardStop | None = None
    end: AttemptEnd | None = None
    _marks: deque[PhaseMark] = field(default_factory=lambda: deque(maxlen=_MARKS_KEPT))
    _step_low_gb: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Evidence:
        """The evidence of recorded events."""
        evidence = cls()
        for event in events:
            evidence.add(event)
        return evidence

    def add(self, event: Event) -> None:
        """Folds one event in."""
        if isinstance(event, MetricRow):
            self._add_row(event)
        elif isinstance(event, PhaseMark):
            self._add_mark(event)
        elif isinstance(event, MemorySample):
            self._add_sample(event)
        elif isinstance(event, LogEvidence):
            insort(self.log, event, key=_rank)
            del self.log[_LOG_KEPT:]
        elif isinstance(event, Progress):
            self.last_sign_s = max(self.last_sign_s, event.at_s)
        elif isinstance(event, GuardStop):
            self.stop = self.stop or event
        elif isinstance(event, AttemptEnd):
            self.end = event

    @property
    def steps(self) -> int:
        """Training steps whose row arrived."""
        return len(self.rows)

    def phase_at(self, at_s: float) -> str:
        """The phase that the attempt was in at this time."""
        found = phases.PHASES[0]
        for mark in self._marks:
            if mark.at_s > at_s:
                break
            found = mark.phase
        return found

    def peak_frac_by_phase(self) -> Mapping[str, float]:
        """Largest used/capacity over the devices, by phase."""
        fractions: dict[str, float] = {}
        for (device, phase), used_gb in self.peaks_gb.items():
            capacity_gb = self.capacity_gb.get(device)
            if capacity_gb:
                fractions[phase] = max(fractions.get(phase, 0.0), used_gb / capacity_gb)
        return fractions

    def _add_row(self, row: MetricRow) -> None:
        self._sign(row.at_s)
        if row.step < 1:
            return
        self.rows.append(row)
        if self.first_step_s is None:
            self.first_step_s = max(0.0, row.at_s - (row.values.get("timing_s/step") or 0.0))
        for device, low_gb in self._step_low_gb.items():
            self.troughs_gb.setdefault(device, deque(maxlen=_TROUGHS_KEPT)).append(low_gb)
        self._step_low_gb.clear()

    def _add_mark(self, mark: PhaseMark) -> None:
        self._sign(mark.at_s)
        # The console tells milestones later than the marks tell phases: it never leads back to the start.
        if phases.is_start(mark.phase) and not phases.is_start(self.phase):
            return
        self._marks.append(mark)
        self.phase, self.phase_started_s = mark.phase, mark.at_s
        # The first weights are sent, and verl may validate, before the first step.
        in_step = mark.phase in phases.STEP_PHASES and mark.phase not in ("weight_sync", "validation")
        if self.first_step_s is None and in_step:
            self.first_step_s = mark.at_s

    def _add_sample(self, sample: MemorySample) -> None:
        key = (sample.device, sample.phase)
        self.peaks_gb[key] = max(self.peaks_gb.get(key, 0.0), sample.used_gb)
        self.last_used_gb[sample.device] = sample.used_gb
        if sample.capacity_gb > 0.0:
            self.capacity_gb[sample.device] = sample.capacity_gb
        self.host_gb = max(self.host_gb, sample.host_gb)
        low_gb = self._step_low_gb.get(sample.device, sample.used_gb)
        self._step_low_gb[sample.device] = min(low_gb, sample.used_gb)

    def _sign(self, at_s: float) -> None:
        self.last_sign_s = max(self.last_sign_s, at_s)
        self.last_step_sign_s = max(self.last_step_sign_s, at_s)


def _rank(evidence: LogEvidence) -> tuple[int, int]:
    return evidence.level, evidence.line_number
