"""What Optuna is told about a trial, as a value: state, objective, constraints, attributes.

OOM and guard stops are PRUNED with graded constraints, never FAIL: samplers ignore failed trials and
climb into the memory wall. A trial that was ended early is PRUNED too, with the values of its steps.
Infrastructure's faults and stops from outside are FAIL, which is how Optuna is told to learn nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autotune.records import Outcome, Value, Verdict

State = Literal["complete", "pruned", "fail"]


@dataclass(frozen=True, kw_only=True)
class Telling:
    """One `tell`, with all that has to be set on the trial before it."""

    state: State
    value: float | None = None
    constraints: Mapping[str, float] = field(default_factory=dict)
    """Named; a trial is feasible when all are <= 0. Graded, so that near misses attract."""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    """Mirrored for people: optuna-dashboard shows user attributes but not constraints."""
    note: str = ""
    """Markdown for the trial's page in optuna-dashboard."""


def telling(
    verdict: Verdict,
    *,
    objective: float | None,
    constraints: Mapping[str, float],
    accepted: bool,
    origin: str,
) -> Telling:
    """The telling of an ended trial.

    Args:
        verdict: The judge's word on the whole trial.
        objective: The stage's objective; None where the trial did not get far enough.
        constraints: Graded named constraints of the stage.
        accepted: Whether the stage's acceptance holds for this trial alone.
        origin: Who proposed it.
    """
    state: State
    if verdict.outcome is Outcome.COMPLETED and objective is not None:
        state = "complete"
    elif verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.STOPPED, Outcome.USER_FAULT):
        state = "fail"
    else:
        state = "pruned"
    taught = {} if state == "fail" else dict(constraints)
    return Telling(
        state=state,
        value=objective if state == "complete" else None,
        constraints=taught,
        attributes=_attributes(verdict, taught, accepted, origin),
        note=_note(verdict, taught, accepted, origin),
    )


def _attributes(
    verdict: Verdict, constraints: Mapping[str, float], accepted: bool, origin: str
) -> dict[str, Value]:
    figures = verdict.figures
    attributes: dict[str, Value] = {
        "origin": origin,
        "outcome": verdict.outcome.value,
        "accepted": accepted,
        "steps": f"{figures.steps}/{figures.steps_asked}",
    }
    measured = {
        "peak_memory_frac": figures.peak_memory_frac,
        "tokens_per_s_per_gpu": figures.tokens_per_s_per_gpu,
        "reward": figures.reward,
        "validation_reward": figures.validation_reward,
        "kl": figures.kl,
        "entropy": figures.entropy,
        "truncated_frac": figures.truncated_frac,
        "no_variance_frac": figures.no_variance_frac,
    }
    attributes.update({name: round(value, 4) for name, value in measured.items() if value is not None})
    attributes.update({f"constraint {name}": round(value, 4) for name, value in constraints.items()})
    if verdict.reason:
        attributes["cause"] = verdict.reason
    if verdict.failure is not None:
        attributes["kind"] = verdict.failure.kind
        attributes["phase"] = verdict.failure.phase
        attributes["cause"] = verdict.failure.cause
    if figures.kl is not None and figures.kl_estimator:
        attributes["kl_estimator"] = figures.kl_estimator
    if verdict.signs:
        attributes["signs"] = list(verdict.signs)
    if verdict.warnings:
        attributes["warnings"] = list(verdict.warnings)
    return attributes


def _note(verdict: Verdict, constraints: Mapping[str, float], accepted: bool, origin: str) -> str:
    figures = verdict.figures
    lines = [f"**{verdict.outcome.value}**{', accepted' if accepted else ''} ({origin})", ""]
    if verdict.reason:
        lines += [verdict.reason, ""]
    if verdict.failure is not None:
        failure = verdict.failure
        lines += [f"`{failure.kind}` in `{failure.phase}`: {failure.cause}", ""]
        if failure.line:
            lines += [f"Console line {failure.line_number}:", "", f"    {failure.line}", ""]
    lines.append(f"Steps {figures.steps} of {figures.steps_asked}.")
    if figures.peak_memory_frac is not None:
        lines.append(
            f"Peak memory {figures.peak_memory_frac:.0%} of the device in `{figures.peak_memory_phase}`."
        )
    if constraints:
        lines += ["", "| constraint | value (feasible <= 0) |", "|---|---|"]
        lines += [f"| {name} | {value:+.3f} |" for name, value in constraints.items()]
    return "\n".join(lines)
