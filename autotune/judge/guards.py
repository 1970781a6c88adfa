"""When to end an attempt early: the first reason that holds, with its figure and its limit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from autotune.job.model import GuardSection
from autotune.judge import early_end, phases
from autotune.judge.evidence import Evidence
from autotune.judge.kinds import FailureKind, hang_kind
from autotune.judge.statistics import finite, slope
from autotune.records import GuardStop, LogEvidence, MetricRow

REWARD = "critic/rewards/mean"
GRADIENT = "actor/grad_norm"
ENTROPY = "actor/entropy"
_SHORTEST_SILENCE_S = 30.0
_FATAL_SILENCE_S = 15.0
_GROWTH_STEPS = 5
SPARE_S = 10.0
"""What a candidate of a warm session may take to end, beyond twice its slowest step."""

# After these lines verl never recovers by itself, though its processes may stay.
_FATAL = frozenset(
    {
        FailureKind.HANG_WEIGHT_SYNC.value,
        FailureKind.ROLLOUT_ERROR.value,
        FailureKind.RAY_ACTOR_DEATH.value,
        FailureKind.NCCL_ERROR.value,
        FailureKind.NCCL_TIMEOUT.value,
        FailureKind.CUDA_FAULT.value,
    }
)


def check(evidence: Evidence, guards: GuardSection, now_s: float) -> GuardStop | None:
    """The decision to end a running attempt, or None.

    `now_s` counts like the events' `at_s`. A decision already made is returned again, so that a
    controller that starts anew still carries it out.
    """
    if evidence.end is not None:
        return None
    return (
        evidence.stop
        or figure_stop(evidence, guards)
        or _fatal_line(evidence, now_s)
        or _wall_limit(evidence, guards, now_s)
        or _silence(evidence, guards, now_s)
    )


def figure_stop(evidence: Evidence, guards: GuardSection) -> GuardStop | None:
    """What the attempt's own figures forbid, whether it still runs or has ended."""
    rows = evidence.rows
    if not rows:
        return None
    # A row arrives when its step is over: the phase is the one that made the figure, not the one
    # that has begun since.
    for kind, phase, reason in (
        (FailureKind.NAN_INF, "reward", _nan_reward(rows, guards)),
        (FailureKind.NAN_INF, "update_actor", _nan_gradient(rows, guards)),
        (FailureKind.KL_DRIFT, "update_actor", _kl_drift(rows, guards)),
        (FailureKind.ENTROPY_EXPLOSION, "update_actor", _entropy(rows, guards)),
        (_zero_kind(rows), "reward", _zero_reward(rows, guards)),
        (FailureKind.OOM_GPU_LEAK, evidence.phase, _growth(evidence, guards)),
    ):
        if reason is not None:
            return GuardStop(kind=kind.value, phase=phase, reason=reason, at_s=rows[-1].at_s)
    return None


def is_figure_kind(kind: str) -> bool:
    """Whether the kind is decided by figures, so that no console line speaks against it."""
    return kind in {
        FailureKind.NAN_INF,
        FailureKind.KL_DRIFT,
        FailureKind.ENTROPY_EXPLOSION,
        FailureKind.REWARD_ZERO,
        FailureKind.REWARD_COLLAPSE,
        FailureKind.OOM_GPU_LEAK,
    }


def spare_s(stop: GuardStop, evidence: Evidence) -> float | None:
    """How long a warm session may take to end this candidate between two steps; None: it must not live on.

    Figures are read between steps of a process that works; after silence or a failing device it is not to
    be trusted. Twice the slowest step seen, since the stop may come just after a step began.
    """
    works = is_figure_kind(stop.kind) or stop.kind in early_end.KINDS
    if not works or stop.kind == FailureKind.OOM_GPU_LEAK:
        return None
    steps_s = finite([row.values.get("timing_s/step") for row in evidence.rows])
    return 2.0 * max(steps_s, default=0.0) + SPARE_S


def slowest_steady_step_s(rows: Sequence[MetricRow]) -> float | None:
    """The longest time from row to row, or that verl itself measured, after the warm-up step."""
    if len(rows) < 2:
        return None
    measured = [
        sum(finite([row.values.get("timing_s/step"), row.values.get("timing_s/testing")])) for row in rows[1:]
    ]
    between = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(rows)]
    return max(measured + between)


def silence_limit_s(evidence: Evidence, guards: GuardSection) -> float:
    """How long the attempt may give no sign of life in its present phase."""
    if phases.is_start(evidence.phase) and not evidence.rows:
        return guards.start_silence_s
    slowest_s = slowest_steady_step_s(evidence.rows)
    if slowest_s is None:
        return guards.step_silence_s
    return min(guards.step_silence_s, max(_SHORTEST_SILENCE_S, guards.step_silence_factor * slowest_s))


def _run_of(
    rows: Sequence[MetricRow], count: int, holds: Callable[[MetricRow], bool]
) -> Sequence[MetricRow] | None:
    """The first run of `count` rows in which every row holds, or None."""
    length = 0
    for index, row in enumerate(rows):
        length = length + 1 if holds(row) else 0
        if length == count:
            return rows[index + 1 - count : index + 1]
    return None


def _missing_number(key: str) -> Callable[[MetricRow], bool]:
    # verl writes NaN and Inf as null; a key that is not there was not measured.
    return lambda row: key in row.values and not finite([row.values[key]])


def _over(key: str, limit: float) -> Callable[[MetricRow], bool]:
    # Inf is over every limit, and verl writes it as null.
    missing = _missing_number(key)
    return lambda row: missing(row) or any(value > limit for value in finite([row.values.get(key)]))


def _told(row: MetricRow, key: str) -> str:
    value = row.values[key]
    return "NaN or Inf" if value is None else f"{value:.4g}"


def _steps(rows: Sequence[MetricRow]) -> str:
    return f"step {rows[0].step}" if len(rows) == 1 else f"steps {rows[0].step} to {rows[-1].step}"


def _nan_reward(rows: Sequence[MetricRow], guards: GuardSection) -> str | None:
    found = _run_of(rows, guards.nan_reward_steps, _missing_number(REWARD))
    return (
        f"{REWARD} is NaN or Inf in {_steps(found)} (limit {guards.nan_reward_steps} steps)"
        if found
        else None
    )


def _nan_gradient(rows: Sequence[MetricRow], guards: GuardSection) -> str | None:
    found = _run_of(rows, guards.nan_gradient_steps, _missing_number(GRADIENT))
    if not found:
        return None
    return f"{GRADIENT} is NaN or Inf in {_steps(found)} (limit {guards.nan_gradient_steps} steps)"


def _kl_drift(rows: Sequence[MetricRow], guards: GuardSection) -> str | None:
    if guards.kl_limit is None:
        return None
    found = _run_of(rows, guards.kl_steps, _over(guards.kl_metric, guards.kl_limit))
    if not found:
        return None
    told = _told(found[-1], guards.kl_metric)
    return f"{guards.kl_metric} is {told} in {_steps(found)} (limit {guards.kl_limit:g})"


def _entropy(rows: Sequence[MetricRow], guards: GuardSection) -> str | None:
    if guards.entropy_limit is None:
        return None
    found = _run_of(rows, 1, _over(ENTROPY, guards.entropy_limit))
    if not found:
        return None
    return f"{ENTROPY} is {_told(found[0], ENTROPY)} in {_steps(found)} (limit {guards.entropy_limit:g})"


def _all_zero(row: MetricRow) -> bool:
    # A best reward of 0 beside negative ones is a scale that ends at 0, not a dead reward.
    found = finite(row.values.get(f"critic/score/{bound}") for bound in ("max", "min"))
    return len(found) == 2 and found == [0.0, 0.0]


def _zero_reward(rows: Sequence[MetricRow], guards: GuardSection) -> str | None:
    if guards.zero_reward_steps is None:
        return None
    found = _run_of(rows, guards.zero_reward_steps, _all_zero)
    return f"every reward is 0 in {_steps(found)} (limit {guards.zero_reward_steps} steps)" if found else None


def _zero_kind(rows: Sequence[MetricRow]) -> FailureKind:
    # Never a reward: the reward function. A reward once and none now: the candidate.
    return FailureKind.REWARD_ZERO if all(map(_all_zero, rows)) else FailureKind.REWARD_COLLAPSE


def _growth(evidence: Evidence, guards: GuardSection) -> str | None:
    if guards.memory_growth_frac_per_step is None:
        return None
    for device, troughs_gb in evidence.troughs_gb.items():
        # The first step still fills caches and optimizer state.
        steady = list(troughs_gb)[1:]
        capacity_gb = evidence.capacity_gb.get(device)
        gradient = slope([(float(index), used_gb) for index, used_gb in enumerate(steady)])
        if len(steady) < _GROWTH_STEPS or not capacity_gb or gradient is None:
            continue
        growth_frac = gradient / capacity_gb
        if growth_frac > guards.memory_growth_frac_per_step:
            return (
                f"idle memory of {device} grew by {growth_frac:.2%} of {capacity_gb:.4g} GB per step over"
                f" {len(steady)} steps (limit {guards.memory_growth_frac_per_step:.2%})"
            )
    return None


def fatal_line(evidence: Evidence) -> LogEvidence | None:
    """The line after which verl does not recover, unless a step was finished since."""
    last_row_s = evidence.rows[-1].at_s if evidence.rows else -1.0
    for found in evidence.log:
        if found.at_s >= last_row_s and (found.kind in _FATAL or found.kind.startswith("oom_")):
            return found
    return None


def _fatal_line(evidence: Evidence, now_s: float) -> GuardStop | None:
    line = fatal_line(evidence)
    if line is None:
        return None
    quiet_s = now_s - max(line.at_s, evidence.last_step_sign_s)
    if quiet_s < _FATAL_SILENCE_S:
        return None
    reason = f"{quiet_s:.0f} s without a step or phase after line {line.line_number}: {line.text[:160]}"
    return GuardStop(kind=line.kind, phase=line.phase, reason=reason, at_s=now_s)


def _wall_limit(evidence: Evidence, guards: GuardSection, now_s: float) -> GuardStop | None:
    if now_s < guards.wall_limit_s:
        return None
    reason = f"ran {now_s:.0f} s with {evidence.steps} steps done (limit {guards.wall_limit_s:g} s)"
    return GuardStop(kind=FailureKind.WALL_LIMIT.value, phase=evidence.phase, reason=reason, at_s=now_s)


def _silence(evidence: Evidence, guards: GuardSection, now_s: float) -> GuardStop | None:
    silent_s, limit_s = now_s - evidence.last_sign_s, silence_limit_s(evidence, guards)
    if silent_s < limit_s:
        return None
    reason = f"no sign of life for {silent_s:.0f} s in {evidence.phase} (limit {limit_s:.0f} s)"
    return GuardStop(kind=hang_kind(evidence.phase), phase=evidence.phase, reason=reason, at_s=now_s)
