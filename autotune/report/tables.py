"""All trials: one object each for `trials --json`, one row each for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from autotune.records import Figures, Outcome, StageName, Value, Verdict
from autotune.report.wording import ABSENT, number, percent, seconds, short_key, strict
from autotune.store.stored import StoredTrial

STYLES: Mapping[Outcome, str] = {
    Outcome.COMPLETED: "green",
    Outcome.FAILED: "red",
    Outcome.REJECTED: "yellow",
    Outcome.INFRASTRUCTURE: "magenta",
    Outcome.USER_FAULT: "red",
    Outcome.ENDED_EARLY: "blue",
    Outcome.STOPPED: "dim",
}


def trials_json(
    trials: Sequence[StoredTrial], device_s: Mapping[int, float], sessions: Mapping[int, str]
) -> list[dict[str, Any]]:
    """One object a trial; absent figures are null.

    Args:
        trials: The trials, in the order wanted.
        device_s: `StoreReader.device_s_by_trial()`.
        sessions: `StoreReader.session_by_trial()`.
    """
    return [
        trial_json(trial, device_s.get(trial.id, 0.0), session=sessions.get(trial.id)) for trial in trials
    ]


def trial_json(trial: StoredTrial, gpu_s: float, *, session: str | None = None) -> dict[str, Any]:
    """A trial's stable fields; `session` is the id of the warm session that ran it last."""
    figures = trial.verdict.figures if trial.verdict else Figures()
    failure = trial.verdict.failure if trial.verdict else None
    fields = {
        "stage": trial.stage.value,
        "number": trial.number,
        "state": state(trial),
        "outcome": trial.verdict.outcome.value if trial.verdict else None,
        "kind": failure.kind if failure else None,
        "params": trial.candidate.params,
        "objective": trial.objective,
        "peak_memory_frac": figures.peak_memory_frac,
        "tokens_per_s_per_gpu": figures.tokens_per_s_per_gpu,
        "reward": figures.reward,
        "kl": figures.kl,
        "gpu_s": gpu_s,
        "started_utc": utc_text(trial.started_utc),
        "ended_utc": utc_text(trial.ended_utc),
        "session": session,
        "origin": trial.candidate.origin,
        "accepted": trial.accepted,
        "reason": failure.cause if failure else early_reason(trial.verdict),
        "objective_half_width": _half_width(trial.stage, figures),
    }
    return {name: strict(value) for name, value in fields.items()}


def _half_width(stage: StageName, figures: Figures) -> float | None:
    """Half of the objective's 95 % interval, by this trial's own steps; survive's has none."""
    if stage is StageName.SURVIVE:
        return None
    return figures.reward_half_width if stage is StageName.QUALITY else figures.tokens_per_s_half_width


def early_reason(verdict: Verdict | None) -> str | None:
    """Why a trial was ended early; None where it was not."""
    return (verdict.reason or None) if verdict else None


def state(trial: StoredTrial) -> str:
    """Optuna's word for it: running, complete, pruned or fail."""
    if trial.verdict is None:
        return "running"
    if trial.pruned:
        return "pruned"
    return "complete" if trial.verdict.outcome is Outcome.COMPLETED else "fail"


def utc_text(moment: datetime | None) -> str | None:
    """ISO 8601 with its offset, to the second."""
    return None if moment is None else moment.isoformat(timespec="seconds")


def trials_table(trials: Sequence[StoredTrial], device_s: Mapping[int, float]) -> Table:
    """One row a trial, as `trials` shows them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("trial", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for heading in ("objective", "peak", "tok/s/GPU", "reward", "KL", "GPU time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("proposed by")
    table.add_column("parameters", overflow="fold")
    for trial in trials:
        figures = trial.verdict.figures if trial.verdict else Figures()
        # Text, since what users and logs write may look like Rich's markup.
        table.add_row(
            Text(trial_name(trial)),
            outcome_text(trial),
            number(trial.objective),
            percent(figures.peak_memory_frac),
            number(figures.tokens_per_s_per_gpu),
            number(figures.reward),
            number(figures.kl),
            seconds(device_s.get(trial.id)),
            Text(trial.candidate.origin),
            Text(params_text(trial.candidate.params)),
        )
    return table


def trial_name(trial: StoredTrial) -> str:
    """What `show` takes: `speed/3`."""
    return f"{trial.stage.value}/{trial.number}"


def outcome_text(trial: StoredTrial) -> Text:
    """The failure kind where there is one, else the outcome; accepted trials are marked."""
    if trial.verdict is None:
        return Text("running", style="cyan")
    failure = trial.verdict.failure
    text = Text(failure.kind if failure else trial.verdict.outcome.value, style=STYLES[trial.verdict.outcome])
    return text.append(" accepted", style="bold green") if trial.accepted else text


def params_text(params: Mapping[str, Value]) -> str:
    """Parameters on one line, keys shortened: `actor.ppo_mini_batch_size=16`."""
    return " ".join(f"{short_key(key)}={value}" for key, value in params.items()) or ABSENT
