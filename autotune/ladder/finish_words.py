"""The finish's verdict in words and as plain JSON values; for the controller, the export and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autotune.judge.comparison import MEMORY, SPEED
from autotune.records import Arm, Comparison, FinishOutcome, FinishVerdict, Overrides

NOT_CONFIRMED = "NOT CONFIRMED"
NAMES: Mapping[str, str] = {
    SPEED: "tokens/s",
    "reward": "reward",
    "validation_reward": "validation reward",
    MEMORY: "peak memory",
}
"""What people call a comparison's metric."""
AGAINST: Mapping[Arm, str] = {
    Arm.OWN: "the user's own configuration",
    Arm.SURVIVOR: "the survivor",
}
"""What the winner was compared with."""


def comparison_text(comparison: Comparison) -> str:
    """`tokens/s +32.1 % [+25.0, +39.5]`, `reward +0.012 [-0.020, +0.044]`: claimed gain and interval."""
    name = NAMES[comparison.metric]
    gain, low, high = comparison.claimed, comparison.low, comparison.high
    if comparison.metric == SPEED:
        return f"{name} {100 * gain:+.1f} % [{100 * low:+.1f}, {100 * high:+.1f}]"
    unit = " GB" if comparison.metric == MEMORY else ""
    return f"{name} {gain:+.3f}{unit} [{low:+.3f}, {high:+.3f}]"


def statement(told: FinishVerdict, *, is_own: bool, winner_failure: str, runs: int) -> FinishVerdict:
    """The verdict with its sentence.

    Args:
        told: All but the sentence.
        is_own: The winner is the user's own configuration.
        winner_failure: Why a run of the winner failed; empty where none did.
        runs: Runs of the winner.
    """
    return replace(told, statement=_sentence(told, is_own, winner_failure, runs))


def _sentence(told: FinishVerdict, is_own: bool, winner_failure: str, runs: int) -> str:
    word = told.outcome.value
    if is_own:
        return f"{word}: the best configuration found is the user's own"
    if winner_failure:
        return f"{word}: the winner does not run cold on a fresh seed ({winner_failure})"
    own = f"the user's own configuration fails ({told.own_failure})" if told.own_failure else ""
    if told.reference is None:
        return f"{word}: {own}, the winner ran {runs} of {runs} times; no gain over another is claimed"
    against = f"compared with {AGAINST[told.reference]} over {told.pairs} pairs of cold runs"
    if told.pairs_after:
        against += f", its gain measured by {told.pairs_after} more"
    figures = ", ".join(map(comparison_text, told.comparisons)) or "nothing was measured in every run"
    return f"{word}: {figures}; {own + '; ' if own else ''}{against}"


def is_confirmed(verdict: FinishVerdict | None, overrides: Overrides) -> bool:
    """Whether the configuration of these overrides is confirmed to be better."""
    return (
        verdict is not None
        and verdict.outcome is FinishOutcome.BETTER
        and dict(verdict.winner) == dict(overrides)
    )


def label(verdict: FinishVerdict | None, overrides: Overrides) -> str:
    """`confirmed: better, ...` or `NOT CONFIRMED: ...` for the configuration of these overrides."""
    if verdict is None:
        return f"{NOT_CONFIRMED}: no finish was run, so the figures are those of the search itself"
    if dict(verdict.winner) != dict(overrides):
        return f"{NOT_CONFIRMED}: the finish was run for another configuration"
    if verdict.outcome is not FinishOutcome.BETTER:
        return f"{NOT_CONFIRMED}: {verdict.statement}"
    return f"confirmed: {verdict.statement.replace('better: ', 'better, ', 1)}"


def verdict_json(verdict: FinishVerdict) -> dict[str, Any]:
    """Plain values, enums as their words; for `status --json` and the report."""
    plain = asdict(verdict)
    plain["outcome"] = verdict.outcome.value
    plain["reference"] = None if verdict.reference is None else verdict.reference.value
    for comparison in plain["comparisons"]:
        comparison["outcome"] = comparison["outcome"].value
    plain["label"] = label(verdict, verdict.winner)
    return plain
