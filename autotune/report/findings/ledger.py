"""What tuning cost by stage and outcome, and after how many training steps that is earned back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.records import StageName
from autotune.report.findings.stages import ClimbedStage, figures_of
from autotune.store.stored import StoredTrial

RUNNING = "running"


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """Device time of one stage's trials of one outcome."""

    stage: StageName
    outcome: str
    """A value of `Outcome`, or `running`."""
    trials: int
    gpu_s: float


@dataclass(frozen=True, kw_only=True)
class PayBack:
    """Device hours saved by the faster configuration, at equal tokens."""

    gain: float
    saved_gpu_h_per_100_steps: float
    steps: float
    """Training steps until what tuning cost is saved."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The whole job's account."""

    entries: tuple[LedgerEntry, ...]
    """By stage and outcome, those that occurred."""
    cost_gpu_h: float
    wall_h: float
    pay_back: PayBack | None
    """None where nothing faster than the survivor was found."""


def ledger(
    trials: Sequence[StoredTrial], device_s: Mapping[int, float], wall_s: float, pay_back: PayBack | None
) -> Ledger:
    """Sums over all trials, running ones included."""
    sums: dict[tuple[StageName, str], list[float]] = {}
    for trial in trials:
        outcome = trial.verdict.outcome.value if trial.verdict else RUNNING
        sums.setdefault((trial.stage, outcome), []).append(device_s.get(trial.id, 0.0))
    order = list(StageName)
    return Ledger(
        entries=tuple(
            LedgerEntry(stage=stage, outcome=outcome, trials=len(costs), gpu_s=sum(costs))
            for (stage, outcome), costs in sorted(sums.items(), key=lambda item: order.index(item[0][0]))
        ),
        cost_gpu_h=sum(device_s.values()) / 3600,
        wall_h=wall_s / 3600,
        pay_back=pay_back,
    )


def pay_back(speed: ClimbedStage | None, gpus: int, cost_gpu_h: float) -> PayBack | None:
    """After how many steps the speed gain has saved what tuning cost; None without a gain.

    A survivor's step of `step_s` takes `step_s / gain` at equal tokens, which is what tokens/s/GPU
    compares; steps of the two runs themselves may differ in tokens.
    """
    if speed is None or speed.baseline is None:
        return None
    base = speed.baseline.figures
    best = figures_of(speed.best).tokens_per_s_per_gpu
    if not base.tokens_per_s_per_gpu or not best or not base.step_s or best <= base.tokens_per_s_per_gpu:
        return None
    gain = best / base.tokens_per_s_per_gpu
    saved_gpu_h = base.step_s * gpus * (1.0 - 1.0 / gain) / 3600
    return PayBack(gain=gain, saved_gpu_h_per_100_steps=100 * saved_gpu_h, steps=cost_gpu_h / saved_gpu_h)
