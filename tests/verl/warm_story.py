"""One warm session on real verl, candidate after candidate, each changing something of another kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.controller.assembly import open_preparer
from autotune.job.loading import load_job
from autotune.job.paths import AttemptPaths, JobPaths
from autotune.records import AttemptEnd, AttemptRole, MemorySample, MetricRow, StageName, Value
from autotune.trial.launcher import RayLauncher
from autotune.trial.preparation import Refusal
from tests.verl.stories import ACTOR, MICRO_BATCH, ROLLOUT, tiny_job

LIMIT_S = 900.0
STEPS = 3


@dataclass(frozen=True)
class Attempted:
    """What came of one candidate."""

    rows: tuple[MetricRow, ...]
    peaks: tuple[MemorySample, ...]
    end: AttemptEnd
    paths: AttemptPaths


CANDIDATES: Mapping[str, Mapping[str, Value]] = {
    "first": {},
    "same again": {},
    "other learning rate": {ACTOR + "optim.lr": 3.0e-3},
    "stopped": {ACTOR + "optim.lr": 1.0e-2},
    "other batches": {MICRO_BATCH: 2, ROLLOUT + "n": 4},
    "other engine": {ROLLOUT + "max_num_seqs": 8},
    "other model": {"actor_rollout_ref.model.enable_gradient_checkpointing": False},
    "as the first": {},
    "too large": {MICRO_BATCH: 64},
}
"""In this order, all of one cold key."""


def serve_all(folder: Path, tiny: Path) -> dict[str, Attempted]:
    """Runs every candidate in one session and returns what came of each."""
    job = load_job(tiny_job(folder, tiny, resources={"warm_sessions": True}))
    launcher = RayLauncher(job.resources)
    section = job.stage(StageName.SURVIVE)
    assert section is not None
    section = section.model_copy(update={"steps": STEPS})
    came: dict[str, Attempted] = {}
    try:
        with open_preparer(job) as preparer:
            for number, (name, overrides) in enumerate(CANDIDATES.items()):
                paths = JobPaths(folder / "results", job.name).attempt(StageName.SURVIVE, number, 0)
                request = preparer.request(
                    section, dict(overrides), AttemptRole.MEASURE, paths, f"warm{number}"
                )
                assert not isinstance(request, Refusal), request.cause
                launcher.start(request)
                came[name] = _follow(launcher, request.attempt_id, paths, stop=name == "stopped")
    finally:
        launcher.close()
    return came


def _follow(launcher: RayLauncher, attempt_id: str, paths: AttemptPaths, *, stop: bool) -> Attempted:
    rows: list[MetricRow] = []
    peaks: list[MemorySample] = []
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for _, event in launcher.poll():
            if isinstance(event, MetricRow):
                rows.append(event)
                if stop:
                    launcher.end(attempt_id, "kl_drift", 60.0)
            if isinstance(event, MemorySample):
                peaks.append(event)
            if isinstance(event, AttemptEnd):
                return Attempted(tuple(rows), tuple(peaks), event, paths)
        time.sleep(0.1)
    raise AssertionError(f"{paths.root.name} did not end")
