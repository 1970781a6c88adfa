"""One warm session on real verl, candidate after candidate, each changing something of another kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.controller.assembly import open_preparer
from autotune.job.loading import load_job
from autotune.job.model import GuardSection
from autotune.job.paths import AttemptPaths, JobPaths
from autotune.judge import guards
from autotune.judge.evidence import Evidence
from autotune.judge.verdict import judge_attempt
from autotune.records import AttemptEnd, AttemptRole, GuardStop, MetricRow, StageName, Value, Verdict
from autotune.trial.launcher import RayLauncher
from autotune.trial.preparation import Refusal
from tests.verl.stories import ACTOR, LOG_PROB, MICRO_BATCH, REFERENCE, ROLLOUT, tiny_job, write_reward

LIMIT_S = 900.0
STEPS = 3


@dataclass(frozen=True)
class Attempted:
    """What came of one candidate."""

    rows: tuple[MetricRow, ...]
    verdict: Verdict
    stop: GuardStop | None
    freed_s: float
    """From the guard's decision until the session was free; 0 without one."""
    end: AttemptEnd
    paths: AttemptPaths


CANDIDATES: Mapping[str, Mapping[str, Value]] = {
    "first": {},
    "same again": {},
    "other learning rate": {ACTOR + "optim.lr": 3.0e-3},
    "drifting": {ACTOR + "optim.lr": 3.0e-2, ACTOR + "kl_loss_coef": 0.0},
    # The KL term's gradient is tiny at first; times this its squared norm leaves fp32.
    "without finite gradients": {ACTOR + "kl_loss_coef": 1.0e38},
    "paid with NaN": {},
    "other batches": {MICRO_BATCH: 2, ROLLOUT + "n": 4},
    "other engine": {ROLLOUT + "max_num_seqs": 8},
    "other model": {"actor_rollout_ref.model.enable_gradient_checkpointing": False},
    "as the first": {},
    # 256 samples' logits are above the cap by themselves, whatever the answers' lengths.
    "too large": {ROLLOUT + "n": 32, LOG_PROB: 256, REFERENCE: 4, MICRO_BATCH: 4},
}
"""In this order, all of one cold key."""
GUARDED = ("drifting", "without finite gradients", "paid with NaN")
GUARDED_STEPS = 12
REWARD = """from autotune.verl_plugin.tiny_reward import compute_score as share
    return float("nan") if __import__("pathlib").Path({flag!r}).exists() else share(
        data_source, solution_str, ground_truth
    )"""
"""The tiny job's own reward, but NaN while the file is there: the key names the same function for all."""


def serve_all(folder: Path, tiny: Path) -> dict[str, Attempted]:
    """Runs every candidate in one session and returns what came of each."""
    limits = {"kl_limit": 0.05, "kl_steps": 2}
    unpaid = folder / "unpaid"
    reward = write_reward(folder, REWARD.format(flag=str(unpaid)))
    mirror = {"loggers": ["tensorboard"], "project": "mirrored"}
    resources = {"warm_sessions": True}
    job = load_job(tiny_job(folder, tiny, reward, resources=resources, guards=limits, mirror=mirror))
    launcher = RayLauncher(job.resources)
    stage = job.stage(StageName.SURVIVE)
    assert stage is not None
    came: dict[str, Attempted] = {}
    try:
        with open_preparer(job) as preparer:
            for number, (name, overrides) in enumerate(CANDIDATES.items()):
                section = stage.model_copy(update={"steps": GUARDED_STEPS if name in GUARDED else STEPS})
                paths = JobPaths(folder / "results", job.name).attempt(StageName.SURVIVE, number, 0)
                request = preparer.request(
                    section, dict(overrides), AttemptRole.MEASURE, paths, f"warm{number}"
                )
                assert not isinstance(request, Refusal), request.cause
                if name == "paid with NaN":
                    unpaid.touch()
                launcher.start(request)
                came[name] = _follow(launcher, request.attempt_id, paths, section.steps, job.guards)
                unpaid.unlink(missing_ok=True)
    finally:
        launcher.close()
    return came


def _follow(
    launcher: RayLauncher, attempt_id: str, paths: AttemptPaths, steps: int, section: GuardSection
) -> Attempted:
    """What the controller does with an attempt: evidence, guards, the end of what they stop."""
    evidence, started_s, stopped_s = Evidence(), time.monotonic(), 0.0
    while evidence.end is None:
        assert time.monotonic() < started_s + LIMIT_S, f"{paths.root.name} did not end"
        for _, event in launcher.poll():
            evidence.add(event)
        stop = guards.check(evidence, section, time.monotonic() - started_s)
        if stop is not None and evidence.stop is None:
            evidence.add(stop)
            stopped_s = time.monotonic()
            launcher.end(attempt_id, stop.kind, guards.spare_s(stop, evidence))
        time.sleep(0.1)
    return Attempted(
        rows=tuple(evidence.rows),
        verdict=judge_attempt(evidence, steps_asked=steps, warmup_steps=1, guards=section),
        stop=evidence.stop,
        freed_s=time.monotonic() - stopped_s if evidence.stop else 0.0,
        end=evidence.end,
        paths=paths,
    )
