"""Facts of a job that climbed all three stages."""

from __future__ import annotations

import pytest

from autotune.export.header import ExportFacts
from autotune.export.provenance import Provenance
from autotune.records import Figures, StageName, StageResult

PROVENANCE = Provenance(
    versions={"verl-autotune": "0.1.0", "verl": "0.9.1"},
    python="3.11.7",
    cpu_count=16,
    memory_gb=128.0,
    gpus=("NVIDIA H100 80GB HBM3 (80 GB)",) * 2,
    driver="570.1",
    commit="abc123+changes",
    seeds={"survive": 1, "speed": 2},
)
SURVIVOR = Figures(
    steps=4,
    steps_asked=4,
    peak_memory_frac=0.715,
    peak_memory_gb=57.2,
    peak_memory_phase="update_actor",
    tokens_per_s_per_gpu=1000.0,
    reward=0.5,
    kl=0.08,
)


def result(stage: StageName, *, met: bool, best: int | None, **figures: float) -> StageResult:
    return StageResult(
        stage=stage,
        trials=6,
        accepted=() if best is None or not met else (best,),
        acceptance_met=met,
        best=best,
        statement=f"{stage.value} statement",
        baseline=None if stage is StageName.SURVIVE else SURVIVOR,
        best_figures=None if best is None else Figures(**{**vars(SURVIVOR), **figures}),
    )


@pytest.fixture
def facts() -> ExportFacts:
    return ExportFacts(
        job_name="tiny",
        results=(
            result(StageName.SURVIVE, met=True, best=2),
            result(StageName.SPEED, met=True, best=5, tokens_per_s_per_gpu=1400.0),
            result(StageName.QUALITY, met=False, best=1, reward=0.55, kl=0.2),
        ),
        provenance=PROVENANCE,
        environment={"NCCL_DEBUG": "WARN now"},
    )
