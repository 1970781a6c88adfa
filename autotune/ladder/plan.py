"""What a stage would start with, before anything has run. Pure; for dry runs."""

from __future__ import annotations

from autotune.job.model import SpeedStage, StageSection
from autotune.job.space_resolution import ResolvedSpace
from autotune.records import Candidate, StageName
from autotune.search.moves import changed, neighbours, safest_point


def first_candidates(
    stage: StageName, section: StageSection, space: ResolvedSpace, limit: int = 8
) -> list[Candidate]:
    """The candidates that are known now; later ones depend on what these show.

    For speed and quality this takes the user's configuration as the one handed on.
    """
    own = space.user_params()
    if stage is StageName.SURVIVE:
        return [
            Candidate(params=own, origin="user configuration"),
            Candidate(params=safest_point(space), origin="checklist: every memory knob at its safest"),
        ][: section.trials]
    if not isinstance(section, SpeedStage):
        return [Candidate(params=own, origin="fastest configuration, as baseline")]
    found = [Candidate(params=own, origin="survivor, repeated")] * section.baseline_repeats
    for parameter in space.active(own):
        for value in neighbours(parameter, own.get(parameter.key)):
            change = f"one change: {parameter.key} {own.get(parameter.key)} -> {value}"
            found.append(Candidate(params=changed(space, own, parameter.key, value), origin=change))
    return found[: min(limit, section.trials)]
