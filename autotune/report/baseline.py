"""A stage's baseline out of its stored trials, by the ladder's own rule."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.job.model import StageSection
from autotune.job.resolved_space import ResolvedSpace
from autotune.ladder.strategy import baseline
from autotune.ladder.view import Baseline, StageView, TrialView
from autotune.records import StageName
from autotune.store.stored import StoredTrial


def stored_baseline(
    stage: StageName, section: StageSection, trials: Sequence[StoredTrial]
) -> Baseline | None:
    """What the stage measures gains against; None for survive, and until its start has been measured."""
    if not trials:
        return None
    ordered = sorted(trials, key=lambda trial: trial.number)
    views = tuple(
        TrialView(
            number=trial.number,
            candidate=trial.candidate,
            verdict=trial.verdict,
            objective=trial.objective,
            accepted=trial.accepted,
        )
        for trial in ordered
    )
    # The first trial is what gains are measured against, so the space is not asked.
    no_space = ResolvedSpace(name="", parameters=(), facts={})
    return baseline(
        StageView(stage=stage, section=section, space=no_space, trials=views, first=(ordered[0].candidate,))
    )
