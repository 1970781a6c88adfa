"""The rows of the table of all trials: text for people beside the plain value that a column sorts by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.records import Figures, Overrides, StageName
from autotune.report.report_data import ReportData
from autotune.report.tables import trial_json, trial_name
from autotune.report.wording import number, percent, seconds, short_key, value_text
from autotune.store.stored import StoredTrial


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A figure of a row."""

    name: str
    text: str
    value: float | None
    """None sorts last, whichever way."""


@dataclass(frozen=True, kw_only=True)
class TrialLine:
    """One trial."""

    name: str
    order: int
    """Place in the order of their start."""
    stage: str
    outcome: str
    kind: str
    accepted: bool
    is_best: bool
    """Of its stage."""
    reason: str
    warnings: tuple[str, ...]
    signs: tuple[str, ...]
    """Names of what its curves showed; the warnings tell them in full."""
    origin: str
    params: str
    """What differs from the stage's start, all of it in the start's own row; empty if the origin says it."""
    cells: tuple[Cell, ...]


_LONG_NUMBER = re.compile(r"\b\d+\.\d{5,}(?:e[+-]?\d+)?")
_LONG_KEY = re.compile(r"\b\w+(?:\.[a-zA-Z]\w*){2,}")


def trial_lines(data: ReportData) -> tuple[TrialLine, ...]:
    """One line a trial, in the order of their start."""
    starts: dict[StageName, StoredTrial] = {}
    for trial in data.trials:
        first = starts.get(trial.stage)
        if first is None or trial.number < first.number:
            starts[trial.stage] = trial
    best = {rung.after_trial for rung in data.rungs if rung.after_trial}
    return tuple(
        _line(index, trial, starts[trial.stage], best, data.device_s)
        for index, trial in enumerate(data.trials)
    )


def _line(
    order: int, trial: StoredTrial, start: StoredTrial, best: set[str], device_s: Mapping[int, float]
) -> TrialLine:
    verdict = trial.verdict
    failure = verdict.failure if verdict else None
    figures = verdict.figures if verdict else Figures()
    spent_s = device_s.get(trial.id)
    return TrialLine(
        name=trial_name(trial),
        order=order,
        stage=trial.stage.value,
        outcome=verdict.outcome.value if verdict else "running",
        kind=failure.kind if failure else "",
        accepted=trial.accepted,
        is_best=trial_name(trial) in best,
        reason=trial_json(trial, spent_s or 0.0)["reason"] or "",
        warnings=verdict.warnings if verdict else (),
        signs=tuple(sign.replace("_", " ") for sign in verdict.signs) if verdict else (),
        origin=_shortened(trial.candidate.origin),
        params=_params(trial, start.candidate.params),
        cells=(
            Cell(name="peak", text=percent(figures.peak_memory_frac), value=figures.peak_memory_frac),
            Cell(
                name="tok/s/GPU",
                text=number(figures.tokens_per_s_per_gpu),
                value=figures.tokens_per_s_per_gpu,
            ),
            Cell(name="reward", text=number(figures.reward), value=figures.reward),
            Cell(name="KL", text=number(figures.kl), value=figures.kl),
            Cell(name="time", text=seconds(spent_s), value=spent_s),
        ),
    )


def _shortened(origin: str) -> str:
    """The origin with keys by their last two parts and numbers of at most four digits."""
    with_keys = _LONG_KEY.sub(lambda key: short_key(key[0]), origin)
    return _LONG_NUMBER.sub(lambda digits: f"{float(digits[0]):.4g}", with_keys)


def _params(trial: StoredTrial, start: Overrides) -> str:
    params = trial.candidate.params
    if params != start and "->" in trial.candidate.origin:
        return ""  # the origin names the change
    return ", ".join(
        f"{short_key(key)}={value_text(value)}"
        for key, value in params.items()
        if params == start or key not in start or start[key] != value
    )
