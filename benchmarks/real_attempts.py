"""Attempts on real verl outside a study, one at a time: what benchmarks measure and record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.controller.assembly import open_preparer
from autotune.job.model import Job, StageSection
from autotune.job.paths import JobPaths
from autotune.judge.evidence import Evidence
from autotune.judge.verdict import judge_attempt
from autotune.records import AttemptEnd, AttemptRole, MetricRow, StageName, Value, Verdict
from autotune.trial.launcher import RayLauncher
from autotune.trial.preparation import Preparer, Refusal

POLL_S = 0.1


@dataclass(frozen=True)
class RealAttempt:
    """One attempt that ended."""

    wall_s: float
    """From its launch or hand-over until its end was known."""
    evidence: Evidence
    verdict: Verdict
    end: AttemptEnd
    cold_key: str
    """Empty where sessions are not for this configuration."""

    @property
    def rows(self) -> list[MetricRow]:
        """The metrics of each step."""
        return self.evidence.rows

    def column(self, key: str) -> list[float | None]:
        """One metric of each step."""
        return [row.values.get(key) for row in self.rows]


GoesOn = Callable[[Evidence], bool]
"""Asked after each metric row whether the attempt goes on."""


def followed(launcher: RayLauncher, goes_on: GoesOn = lambda evidence: True) -> Evidence:
    """Everything that the launcher's one attempt reports, up to its end."""
    evidence, asked = Evidence(), False
    while evidence.end is None:
        for attempt_id, event in launcher.poll():
            evidence.add(event)
            if isinstance(event, MetricRow) and not asked and not goes_on(evidence):
                asked = True
                launcher.end(attempt_id, "stopped by the search")
        time.sleep(POLL_S)
    return evidence


class RealAttempts:
    """Runs candidates of one job on a Ray of their own."""

    def __init__(self, job: Job, preparer: Preparer, launcher: RayLauncher, folder: Path) -> None:
        self._job, self._preparer, self._launcher = job, preparer, launcher
        self._paths = JobPaths(folder, job.name)
        self._number = 0

    def run(
        self,
        overrides: Mapping[str, Value],
        *,
        steps: int,
        cold: bool = False,
        goes_on: GoesOn = lambda evidence: True,
    ) -> RealAttempt:
        """One attempt over the job's own configuration, warm where a session fits.

        Raises:
            ValueError: verl refuses the configuration.
        """
        section: StageSection | None = self._job.stage(StageName.SPEED)
        assert section is not None
        section = section.model_copy(update={"steps": steps})
        paths = self._paths.attempt(StageName.SPEED, self._number, 0)
        attempt_id = f"attempt{self._number}"
        self._number += 1
        request = self._preparer.request(section, dict(overrides), AttemptRole.MEASURE, paths, attempt_id)
        if isinstance(request, Refusal):
            raise ValueError(f"{overrides}: {request.cause}")
        key = request.session_key or ""
        started_s = time.monotonic()
        self._launcher.start(replace(request, session_key=None) if cold else request)
        evidence = followed(self._launcher, goes_on)
        assert evidence.end is not None
        verdict = judge_attempt(evidence, steps_asked=steps, warmup_steps=1, guards=self._job.guards)
        return RealAttempt(time.monotonic() - started_s, evidence, verdict, evidence.end, key)


@contextmanager
def real_attempts(job: Job, folder: Path) -> Iterator[RealAttempts]:
    """Opens verl's validator and a Ray for one job; everything has ended afterwards."""
    with open_preparer(job) as preparer:
        launcher = RayLauncher(job.resources)
        try:
            yield RealAttempts(job, preparer, launcher, folder)
        finally:
            launcher.close()
