"""A small job on disk: an accepted trial, one out of memory, one that runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from autotune.clock import ManualClock
from autotune.records import (
    AttemptEnd,
    AttemptRole,
    Candidate,
    Failure,
    FailureGroup,
    Figures,
    MetricRow,
    Outcome,
    StageName,
    StageResult,
    Verdict,
)
from autotune.report.report_data import ReportData, read_report
from autotune.store.store import Store
from tests.report.study import fill_study, study_job

FIGURES = Figures(
    steps=4,
    steps_asked=4,
    peak_memory_frac=0.715,
    peak_memory_gb=57.2,
    peak_memory_phase="update_actor",
    peak_by_phase_frac={"rollout": 0.41, "update_actor": 0.715},
    tokens_per_s_per_gpu=1234.5,
    reward=0.62,
    kl=0.08,
    step_s=3.0,
    start_s=61.0,
)
FITS = Verdict(outcome=Outcome.COMPLETED, figures=FIGURES, warnings=("12 % of the responses were clipped",))
OOM = Verdict(
    outcome=Outcome.FAILED,
    figures=Figures(steps=1, steps_asked=4, peak_memory_frac=0.97),
    failure=Failure(
        kind="oom_gpu_actor_update",
        group=FailureGroup.CANDIDATE,
        phase="update_actor",
        cause="the actor update asked for 2.3 GB and 0.4 GB were free",
        line_number=812,
        line="torch.OutOfMemoryError: [/red] tried to allocate 2.3 GB",
    ),
)
RESULT = StageResult(
    stage=StageName.SURVIVE,
    trials=2,
    accepted=(0,),
    acceptance_met=True,
    best=0,
    statement="#0 ran its 4 steps at 72 % of memory (limit 80 %)",
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/tiny.db"
    with Store.open(url, job_name="tiny", job_hash="0123456789abcdef", version="0.1.0") as store:
        yield store


@pytest.fixture
def climbed(store: Store, clock: ManualClock, tmp_path: Path) -> Store:
    run_trial(store, clock, 0, FITS, tmp_path)
    run_trial(store, clock, 1, OOM, tmp_path)
    store.end_stage(RESULT, clock.utc_now())
    begin_trial(store, clock, StageName.SPEED, 0, tmp_path)
    store.add_wall_s(3600)
    return store


def begin_trial(store, clock, stage, number, tmp_path):
    candidate = Candidate(
        params={"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4}, origin="user [configuration]"
    )
    trial_id = store.add_trial(stage, number, candidate, {"trainer.seed": 1}, clock.utc_now())
    folder = tmp_path / f"{stage.value}-{number}-0"
    folder.mkdir()
    (folder / "console.log").write_text("")
    store.start_attempt(
        trial_id,
        attempt_id=f"{stage.value}{number}",
        index=0,
        role=AttemptRole.MEASURE,
        folder=str(folder),
        at_utc=clock.utc_now(),
        devices=2,
    )
    return trial_id


def run_trial(store, clock, number, verdict, tmp_path):
    trial_id = begin_trial(store, clock, StageName.SURVIVE, number, tmp_path)
    end_trial(store, clock, trial_id, StageName.SURVIVE, number, verdict)


def end_trial(store, clock, trial_id, stage, number, verdict):
    clock.advance_s(90)
    rows = [
        MetricRow(
            step=step,
            at_s=60.0 + step,
            values={"critic/rewards/mean": step / 4, "actor/kl_loss": None if step == 2 else 0.1},
        )
        for step in range(1, verdict.figures.steps + 1)
    ]
    attempt_id = f"{stage.value}{number}"
    store.add_events(attempt_id, rows, clock.utc_now())
    end = AttemptEnd(at_s=90.0, exit_code=1, asked=False, clean_up_s=0.4)
    store.end_attempt(attempt_id, end=end, verdict=verdict, device_s=180.0, at_utc=clock.utc_now())
    done = verdict.outcome is Outcome.COMPLETED
    store.end_trial(
        trial_id,
        verdict=verdict,
        objective=0.285 if done else None,
        accepted=done,
        pruned=not done,
        at_utc=clock.utc_now(),
    )


@pytest.fixture
def printed() -> Callable[[RenderableType], str]:
    """What a terminal would show of a renderable."""

    def text(renderable: RenderableType) -> str:
        console = Console(file=io.StringIO(), width=160, no_color=True)
        console.print(renderable)
        return console.file.getvalue()

    return text


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """The report's data of a whole made-up ladder."""
    folder = tmp_path_factory.mktemp("study")
    clock, job = ManualClock(), study_job(folder)
    with Store.open(f"sqlite:///{folder}/s.db", job_name=job.name, job_hash="0" * 16, version="t") as store:
        fill_study(store, clock, job)
        return read_report(store, job, clock.utc_now())
