"""Stage survive: the user's configuration, then its repairs, then the safest point, then the sampler."""

from __future__ import annotations

from autotune.job.model import SurviveStage
from autotune.judge.kinds import FailureKind, oom_kind
from autotune.ladder.view import Finish, Move, Propose, Sample, StageView, TrialView, Wait
from autotune.records import Candidate, Failure, FailureGroup
from autotune.search.moves import safest_point
from autotune.search.repairs import repairs, untried


def next_move(view: StageView) -> Move:
    """What to do with a free slot."""
    assert isinstance(view.section, SurviveStage)
    accepted = sum(trial.accepted for trial in view.trials)
    if accepted >= view.section.accepted_wanted:
        return Finish(f"{accepted} accepted, {view.section.accepted_wanted} wanted")
    if view.is_full:
        return Finish(f"all {view.section.trials} trials used")
    own = Candidate(params=view.space.user_params(), origin="user configuration")
    if not view.has_tried(own):
        return Propose(own)
    repair = _next_repair(view)
    if repair is not None:
        return Propose(repair)
    if view.running and accepted + len(view.running) >= view.section.accepted_wanted:
        # What runs may be all that is wanted; a safer point beside it would win by head-room alone.
        return Wait()
    safest = Candidate(params=safest_point(view.space), origin="checklist: every memory knob at its safest")
    return Sample() if view.has_tried(safest) else Propose(safest)


def _next_repair(view: StageView) -> Candidate | None:
    """The repair of the latest failure that still has an untried one."""
    for trial in reversed(view.ended):
        failure = _shortfall(view, trial)
        if failure is None or trial.is_void:
            continue
        candidates = repairs(
            failure,
            trial.candidate.params,
            view.space,
            number=trial.number,
            times_in_a_row=_times_in_a_row(view, trial),
        )
        repair = untried(candidates, view.tried)
        # A failure whose repair is under way, or was refuted by its own outcome, is not repaired twice.
        if repair is not None and not _was_repaired(view, trial):
            return repair
    return None


def _shortfall(view: StageView, trial: TrialView) -> Failure | None:
    """Why the trial did not survive; one that came through over the memory limit is as good as an OOM."""
    assert trial.verdict is not None
    figures = trial.verdict.figures
    peak, limit = figures.peak_memory_frac, view.section.peak_memory_frac
    if not trial.is_complete or peak is None or peak <= limit:
        return trial.verdict.failure
    phase = figures.peak_memory_phase
    kind = oom_kind(phase)
    if kind == FailureKind.OOM_GPU_ROLLOUT_RUNTIME:
        # The engine came through: what it took is its share of the device, not its sequences.
        kind = FailureKind.OOM_GPU_ROLLOUT_WAKEUP.value
    cause = f"peak memory {peak:.0%} of the device in {phase}, limit {limit:.0%}"
    return Failure(kind=kind, group=FailureGroup.CANDIDATE, phase=phase, cause=cause)


def _was_repaired(view: StageView, failed: TrialView) -> bool:
    return any(
        _repaired_number(trial.candidate.origin) == failed.number
        for trial in view.trials
        if not trial.is_void
    )


def _times_in_a_row(view: StageView, trial: TrialView) -> int:
    """How many trials up to `trial`, each the repair of the one before, failed in the same way."""
    times = 0
    by_number = {other.number: other for other in view.ended}
    first = _shortfall(view, trial)
    current: TrialView | None = trial
    while current is not None and first is not None:
        failure = _shortfall(view, current)
        if failure is None or failure.kind != first.kind:
            break
        times += 1
        current = by_number.get(_repaired_number(current.candidate.origin))
    return times


def _repaired_number(origin: str) -> int:
    """The trial that `origin` says it repairs; -1 where it is no repair."""
    if not origin.startswith("repair of #"):
        return -1
    return int(origin.removeprefix("repair of #").split(" ", 1)[0])
