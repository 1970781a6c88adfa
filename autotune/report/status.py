"""Where a job stands: each stage's trials and best, and what of the budget is used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autotune.job.model import BudgetSection, Job
from autotune.judge.ledger import Ledger, PayBack
from autotune.ladder.finish_words import label, verdict_json
from autotune.records import RUNGS, FinishVerdict, Outcome, StageName, StageResult
from autotune.report.ledger import ledger_json, ledger_lines
from autotune.report.pay_back import clear_pay_back
from autotune.report.tables import state, trial_json
from autotune.report.wording import ABSENT, number, percent, strict
from autotune.store.reader import StoreReader
from autotune.store.stored import StoredTrial


@dataclass(frozen=True, kw_only=True)
class StageStatus:
    """One stage; `result` is None until it has ended."""

    stage: StageName
    trials: tuple[StoredTrial, ...]
    planned: int | None
    """Largest number of trials; None where the job file is not at hand."""
    result: StageResult | None

    @property
    def state(self) -> str:
        """`waiting`, `open` or `ended`."""
        if self.result is not None:
            return "ended"
        return "open" if self.trials else "waiting"

    @property
    def launched(self) -> int:
        """Trials that count against the limit: all but those rejected before launch."""
        outcomes = [trial.verdict.outcome for trial in self.trials if trial.verdict]
        return len(self.trials) - outcomes.count(Outcome.REJECTED)

    @property
    def accepted(self) -> tuple[int, ...]:
        """Numbers of the accepted trials: best first once the stage has ended."""
        if self.result is not None:
            return self.result.accepted
        return tuple(trial.number for trial in self.trials if trial.accepted)

    @property
    def best(self) -> StoredTrial | None:
        """The stage's own choice; until then the completed trial of the largest objective, accepted first."""
        if self.result is not None:
            return next((trial for trial in self.trials if trial.number == self.result.best), None)
        ranked = [
            (trial.accepted, trial.objective, -trial.number, trial)
            for trial in self.trials
            if trial.objective is not None and trial.verdict and trial.verdict.outcome is Outcome.COMPLETED
        ]
        return max(ranked)[-1] if ranked else None


@dataclass(frozen=True, kw_only=True)
class Status:
    """A job at one moment."""

    job_name: str
    stages: tuple[StageStatus, ...]
    budget: BudgetSection
    device_s_by_trial: dict[int, float]
    wall_s: float
    ledger: Ledger
    pay_back: PayBack | None
    finish: FinishVerdict | None = None
    finish_trials: tuple[StoredTrial, ...] = ()
    finish_pairs: int | None = None
    """Largest number of pairs that is planned; None before the finish."""


def read_status(store: StoreReader, job: Job | None = None) -> Status:
    """Reads where the job stands; without the job file, limits and planned trials are left out."""
    trials = store.trials()
    by_stage = {stage: tuple(trial for trial in trials if trial.stage is stage) for stage in StageName}
    results = store.stage_results()
    books = store.ledger()
    return Status(
        job_name=store.job_name,
        stages=tuple(
            StageStatus(
                stage=stage,
                trials=by_stage[stage],
                planned=_planned(job, stage),
                result=results.get(stage),
            )
            for stage in (job.stage_names() if job else RUNGS)
        ),
        budget=job.budget if job else BudgetSection(),
        device_s_by_trial=store.device_s_by_trial(),
        wall_s=store.wall_s(),
        finish=store.finish_verdict(),
        finish_trials=by_stage[StageName.FINISH],
        finish_pairs=None if (plan := store.finish_plan()) is None else plan.pairs,
        ledger=books,
        pay_back=clear_pay_back(books, results, job, by_stage[StageName.SPEED]) if job else None,
    )


def status_json(status: Status) -> dict[str, Any]:
    """The stable answer of `status --json`. `best` is a trial's number, `best_trial` the whole of it."""
    answer = {
        "job": status.job_name,
        "stages": [_stage_json(stage, status) for stage in status.stages],
        "budget": {
            "gpu_hours": {"used": _gpu_hours(status), "limit": status.budget.gpu_hours},
            "trials": {"used": _trials(status), "limit": status.budget.trials},
            "wall_hours": {"used": status.wall_s / 3600, "limit": status.budget.wall_hours},
        },
        "ledger": ledger_json(status.ledger, status.pay_back),
        "verdict": verdict(status),
        "finish": _finish_json(status),
    }
    plain: dict[str, Any] = strict(answer)
    return plain


def verdict(status: Status) -> str:
    """The finish's word, else how far the ladder was climbed: the last ended stage's own statement."""
    if status.finish is not None:
        return label(status.finish, status.finish.winner)
    ended = [stage for stage in status.stages if stage.result is not None]
    if not ended:
        return "no stage has ended yet"
    last = ended[-1]
    assert last.result is not None
    return f"{last.stage.value}: {last.result.statement}"


def status_view(status: Status) -> RenderableType:
    """The same for people."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("stage", "state", "trials", "accepted", "acceptance", "best"):
        table.add_column(heading, no_wrap=heading != "best")
    for stage in status.stages:
        met = stage.result.acceptance_met if stage.result else None
        table.add_row(
            stage.stage.value,
            stage.state,
            _of(stage.launched, stage.planned),
            " ".join(str(trial) for trial in stage.accepted) or ABSENT,
            ABSENT if met is None else Text("met", "green") if met else Text("not met", "yellow"),
            _best_text(stage.best),
        )
    budget = status.budget
    used = (
        f"used: {_of(_gpu_hours(status), budget.gpu_hours)} GPU hours, "
        f"{_of(_trials(status), budget.trials)} trials, "
        f"{_of(status.wall_s / 3600, budget.wall_hours)} hours"
    )
    return Group(
        Text(f"job {status.job_name}", style="bold"),
        table,
        Text(used),
        *ledger_lines(status.ledger, status.pay_back),
        Text(verdict(status)),
    )


def _stage_json(stage: StageStatus, status: Status) -> dict[str, Any]:
    best = stage.best
    return {
        "stage": stage.stage.value,
        "state": stage.state,
        "trials": len(stage.trials),
        "trials_planned": stage.planned,
        "running": sum(state(trial) == "running" for trial in stage.trials),
        "outcomes": Counter(trial.verdict.outcome.value for trial in stage.trials if trial.verdict),
        "accepted": stage.accepted,
        "acceptance_met": stage.result.acceptance_met if stage.result else None,
        "best": best.number if best else None,
        "best_trial": trial_json(best, status.device_s_by_trial.get(best.id, 0.0)) if best else None,
        "statement": stage.result.statement if stage.result else None,
    }


def _finish_json(status: Status) -> dict[str, Any] | None:
    """The finish as it stands; None before it is planned."""
    if status.finish_pairs is None:
        return None
    return {
        "state": "open" if status.finish is None else "ended",
        "trials": len(status.finish_trials),
        "pairs_planned": status.finish_pairs,
        "verdict": None if status.finish is None else verdict_json(status.finish),
    }


def _planned(job: Job | None, stage: StageName) -> int | None:
    section = job.stage(stage) if job else None
    return section.trials if section else None


def _gpu_hours(status: Status) -> float:
    return sum(status.device_s_by_trial.values()) / 3600


def _trials(status: Status) -> int:
    return sum(stage.launched for stage in status.stages) + len(status.finish_trials)


def _of(used: float, limit: float | None) -> str:
    return number(used) if limit is None else f"{number(used)} of {number(limit)}"


def _best_text(best: StoredTrial | None) -> str:
    if best is None or best.verdict is None:
        return ABSENT
    figures = best.verdict.figures
    return (
        f"#{best.number}: peak {percent(figures.peak_memory_frac)}, "
        f"{number(figures.tokens_per_s_per_gpu)} tok/s/GPU, "
        f"reward {number(figures.reward)}, KL {number(figures.kl)}"
    )
