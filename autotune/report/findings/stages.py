"""One stage as the report sees it: what gains are measured against, and the trials that have a name."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.job.model import Job, StageSection
from autotune.ladder.view import Baseline
from autotune.records import Figures, Outcome, StageName
from autotune.report.baseline import stored_baseline
from autotune.report.status import Status
from autotune.report.tables import trial_name
from autotune.store.stored import StoredTrial

OWN, SURVIVOR, FASTEST, BEST = "your configuration", "survivor", "fastest", "best"
NAMES_BEFORE = {StageName.SURVIVE: OWN, StageName.SPEED: SURVIVOR, StageName.QUALITY: FASTEST}
"""What each stage starts from, by the name that people know it by."""
NAMES_AFTER = {StageName.SURVIVE: SURVIVOR, StageName.SPEED: FASTEST, StageName.QUALITY: BEST}
"""What each stage hands on."""


@dataclass(frozen=True, kw_only=True)
class ClimbedStage:
    """A stage with its trials, in progress or ended."""

    stage: StageName
    section: StageSection
    state: str
    """`waiting`, `open` or `ended`."""
    trials: tuple[StoredTrial, ...]
    best: StoredTrial | None
    """The stage's own choice; until it has ended, the completed trial with the largest objective."""
    baseline: Baseline | None
    """None for survive, and until the start has been measured."""
    acceptance_met: bool | None
    """None until the stage has ended."""
    statement: str
    """The stage's own sentence; empty until it has ended."""

    @property
    def start(self) -> StoredTrial | None:
        """The first trial: the user's configuration, the survivor repeated, the fastest as baseline."""
        return min(self.trials, key=lambda trial: trial.number, default=None)

    @property
    def starts(self) -> tuple[StoredTrial, ...]:
        """All trials of the configuration that the stage started from."""
        first = self.start
        return tuple(t for t in self.trials if first and t.candidate.params == first.candidate.params)


def climbed_stages(status: Status, job: Job) -> tuple[ClimbedStage, ...]:
    """The stages of the job that climb, in their order."""
    found = []
    for one in status.stages:
        section = job.stage(one.stage)
        if section is None or one.stage not in NAMES_AFTER:
            continue
        found.append(
            ClimbedStage(
                stage=one.stage,
                section=section,
                state=one.state,
                trials=one.trials,
                best=one.best,
                baseline=stored_baseline(one.stage, section, one.trials),
                acceptance_met=one.result.acceptance_met if one.result else None,
                statement=one.result.statement if one.result else "",
            )
        )
    return tuple(found)


def figures_of(trial: StoredTrial | None) -> Figures:
    """What the trial measured; nothing where it has no verdict."""
    return trial.verdict.figures if trial is not None and trial.verdict is not None else Figures()


def is_complete(trial: StoredTrial) -> bool:
    """Whether it ran all its steps with finite figures."""
    return trial.verdict is not None and trial.verdict.outcome is Outcome.COMPLETED


def name_of(trial: StoredTrial | None) -> str:
    """`speed/3`; empty for none."""
    return "" if trial is None else trial_name(trial)
