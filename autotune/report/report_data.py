"""Everything that a report shows of one job, as plain values, gathered from the store's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from autotune.job.model import Job
from autotune.records import StageName, Value
from autotune.report.findings.changes import ChangesFinding, changes_finding
from autotune.report.findings.curves import CurvesFinding
from autotune.report.findings.effects import EffectsFinding, effects_finding
from autotune.report.findings.failures import FailureCount, failure_counts
from autotune.report.findings.ledger import Ledger, ledger, pay_back
from autotune.report.findings.memory import MemoryFinding, memory_finding
from autotune.report.findings.rungs import Rung, rungs
from autotune.report.findings.runs import read_curves, read_step_times
from autotune.report.findings.stages import climbed_stages
from autotune.report.findings.step_times import StepTimes
from autotune.report.findings.verdict import ConfirmedVerdict, Headline, headline
from autotune.report.status import read_status
from autotune.report.tables import trials_json, utc_text
from autotune.report.wording import strict
from autotune.search.importances import Importances, importances
from autotune.store.reader import StoreReader
from autotune.store.stored import StoredTrial


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """One job at one moment. What is not there yet is None or empty, at any point of a study."""

    job_name: str
    read_utc: datetime
    headline: Headline
    confirmed: ConfirmedVerdict | None
    """Winner and own configuration run again; None until that is done."""
    rungs: tuple[Rung, ...]
    changes: ChangesFinding | None
    memory: MemoryFinding | None
    step_times: tuple[StepTimes, ...]
    """Survivor first, then the fastest."""
    curves: CurvesFinding | None
    effects: EffectsFinding | None
    importances: tuple[Importances, ...]
    failures: tuple[FailureCount, ...]
    ledger: Ledger
    trials: tuple[StoredTrial, ...]
    device_s: Mapping[int, float]
    sessions: Mapping[int, str]
    """Warm session of each trial, by its id in the database."""
    """By trial id."""
    gpus_per_trial: int
    device: str
    """`gpu`, or `cpu` where capped workers stand for devices."""
    provenance: Mapping[str, Value]
    """As gathered where the trials ran, without the job itself."""


def read_report(store: StoreReader, job: Job, read_utc: datetime) -> ReportData:
    """Reads the job's database, also while a controller writes it."""
    status = read_status(store, job)
    stages = climbed_stages(status, job)
    by_stage = {stage.stage: stage for stage in stages}
    speed = by_stage.get(StageName.SPEED)
    trials, device_s = tuple(store.trials()), status.device_s_by_trial
    climbed_rungs = rungs(stages)
    confirmed: ConfirmedVerdict | None = None  # a study that ends with one hands it over here
    cost_gpu_h = sum(device_s.values()) / 3600
    gpus = job.resources.gpus_per_trial
    return ReportData(
        job_name=store.job_name,
        read_utc=read_utc,
        headline=headline(climbed_rungs, confirmed),
        confirmed=confirmed,
        rungs=climbed_rungs,
        changes=changes_finding(stages, list(store.stage_results().values()), job),
        memory=memory_finding(stages, _no_forecast),
        step_times=read_step_times(store, speed),
        curves=read_curves(store, stages, job.guards.kl_metric),
        effects=effects_finding(speed),
        importances=tuple(
            importances(store.url, store.job_name, stage.stage) for stage in stages if stage.trials
        ),
        failures=failure_counts(trials, device_s),
        ledger=ledger(trials, device_s, status.wall_s, pay_back(speed, gpus, cost_gpu_h)),
        trials=trials,
        device_s=device_s,
        sessions=store.session_by_trial(),
        gpus_per_trial=gpus,
        device=job.resources.device,
        provenance={name: value for name, value in store.provenance().items() if name != "job"},
    )


def _no_forecast(_trial_id: int) -> Mapping[str, float]:
    """The database keeps no forecasts."""
    return {}


def report_json(data: ReportData) -> dict[str, Any]:
    """The same as plain numbers; trials with the stable fields of `trials --json`."""
    plain = asdict(data)
    del plain["device_s"], plain["sessions"]
    plain["read_utc"] = utc_text(data.read_utc)
    plain["trials"] = trials_json(data.trials, data.device_s, data.sessions)
    answer: dict[str, Any] = strict(plain)
    return answer
