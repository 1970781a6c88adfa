"""Everything that a report shows of one job, as plain values, gathered from the store's reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

from autotune.job.model import Job
from autotune.judge.ledger import Ledger, PayBack
from autotune.ladder.finish_words import is_confirmed, verdict_json
from autotune.records import FinishVerdict, Overrides, StageName, StageResult, Value
from autotune.report.findings.changes import ChangesFinding, changes_finding
from autotune.report.findings.curves import CurvesFinding
from autotune.report.findings.effects import EffectsFinding, effects_finding
from autotune.report.findings.failures import FailureCount, failure_counts
from autotune.report.findings.load import LoadFinding, read_loads
from autotune.report.findings.memory import MemoryFinding, memory_finding
from autotune.report.findings.rungs import Rung, rungs
from autotune.report.findings.runs import read_curves, read_step_times
from autotune.report.findings.stages import climbed_stages
from autotune.report.findings.step_times import StepTimes
from autotune.report.findings.verdict import Headline, headline, is_of
from autotune.report.ledger import ledger_json
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
    finish: FinishVerdict | None
    """Winner and own configuration run again; None until that is done for the exported configuration."""
    confirmed: bool
    """Whether the finish found the exported configuration to be better."""
    rungs: tuple[Rung, ...]
    changes: ChangesFinding | None
    memory: MemoryFinding | None
    step_times: tuple[StepTimes, ...]
    """Survivor first, then the fastest."""
    loads: tuple[LoadFinding, ...]
    """The same two; empty where no load monitor ran, or its files are gone."""
    curves: CurvesFinding | None
    effects: EffectsFinding | None
    importances: tuple[Importances, ...]
    failures: tuple[FailureCount, ...]
    ledger: Ledger
    pay_back: PayBack | None
    """None while stage speed has found nothing faster than what it started from. A gain that may be noise
    saves nothing."""
    wall_s: float
    """Seconds that controllers worked on the job."""
    trials: tuple[StoredTrial, ...]
    device_s: Mapping[int, float]
    """By trial id."""
    sessions: Mapping[int, str]
    """Warm session of each trial, by its id in the database."""
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
    results = list(store.stage_results().values())
    exported = _exported(results)
    return ReportData(
        job_name=store.job_name,
        read_utc=read_utc,
        headline=headline(climbed_rungs, status.finish, exported),
        finish=status.finish if is_of(status.finish, exported) else None,
        confirmed=is_confirmed(status.finish, exported),
        rungs=climbed_rungs,
        changes=changes_finding(stages, results, job),
        memory=memory_finding(stages, partial(_forecast_frac, store)),
        step_times=read_step_times(store, speed),
        loads=read_loads(store, stages),
        curves=read_curves(store, stages, job.guards.kl_metric),
        effects=effects_finding(speed),
        importances=tuple(
            importances(store.url, store.job_name, stage.stage) for stage in stages if stage.trials
        ),
        failures=failure_counts(trials, device_s),
        ledger=status.ledger,
        pay_back=status.pay_back if _is_faster(climbed_rungs) else None,
        wall_s=status.wall_s,
        trials=trials,
        device_s=device_s,
        sessions=store.session_by_trial(),
        gpus_per_trial=job.resources.gpus_per_trial,
        device=job.resources.device,
        provenance={name: value for name, value in store.provenance().items() if name != "job"},
    )


def _exported(results: Sequence[StageResult]) -> Overrides:
    """What `autotune export` writes over the job's own: that of the last stage with a best trial."""
    return next((result.overrides for result in reversed(results) if result.best is not None), {})


def _is_faster(climbed: Sequence[Rung]) -> bool:
    return any(rung.stage is StageName.SPEED and rung.gain is not None for rung in climbed)


def _forecast_frac(store: StoreReader, trial_id: int) -> Mapping[str, float]:
    """Peaks by phase as they were expected at the trial's launch; empty where no forecast was made."""
    judgement = store.forecast(trial_id)
    return {} if judgement is None else judgement.expected_frac


def report_json(data: ReportData) -> dict[str, Any]:
    """The same as plain numbers; trials with the stable fields of `trials --json`."""
    plain = asdict(data)
    del plain["device_s"], plain["sessions"], plain["pay_back"]
    plain["finish"] = None if data.finish is None else verdict_json(data.finish)
    plain["ledger"] = ledger_json(data.ledger, data.pay_back)
    plain["read_utc"] = utc_text(data.read_utc)
    plain["trials"] = trials_json(data.trials, data.device_s, data.sessions)
    answer: dict[str, Any] = strict(plain)
    return answer
