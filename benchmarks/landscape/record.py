"""`python -m benchmarks.landscape.record`: runs candidates of a job's speed space on real verl and notes each.

Warm sessions make it affordable. The grid is every value of the space with every other; `--sample` draws as
many candidates of each rollout engine's from it, by a fixed seed. They run in the order of their engines, the
survivor's own first, so that an engine is started once a repeat; a new run of the command goes on where the last
one stopped. The first line of a job is the survivor that the grid is laid around. `--variant` records the job
with other `--set` values or another `--cap-gb` beside it, in the same file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
import platform
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from autotune.controller.assembly import open_preparer
from autotune.controller.ladder_run import stage_space
from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.job.resolved_space import ResolvedSpace
from autotune.records import Overrides, StageName, Value
from autotune.search.points import point_key
from autotune.verl_config.compose import verl_version
from autotune.verl_plugin.warm.live_keys import ENGINE_KEYS
from benchmarks.real_attempts import RealAttempt, real_attempts
from benchmarks.warm.__main__ import FITTING, JOB

_HERE = Path(__file__).parent
NOTES = _HERE / "tiny_cpu.jsonl"
RECORDED = _HERE / "tiny_cpu.jsonl.xz"


def main(arguments: list[str]) -> int:
    """Records until the grid or the time is used up, then compresses what is there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.landscape.record", description=__doc__)
    parser.add_argument("--job", type=Path, default=JOB)
    parser.add_argument("--variant", help="name of the job as recorded; its own by default")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="overrides of the variant")
    parser.add_argument("--sample", type=int, help="candidates to record; the whole grid by default")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cap-gb", type=float, default=0.6, help="memory cap of a worker; a low one costs")
    options = parser.parse_args(arguments)
    job = _variant(load_job(options.job), options)
    noted = [line for line in map(json.loads, _lines(NOTES)) if line["job"] == job.name]
    if not noted:
        _append(_provenance(job, options, arguments))
    grid = _grid(job)
    waiting = _left(_sampled(grid, options.sample or len(grid)), noted, options.repeats)
    deadline_s = time.monotonic() + 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as folder, real_attempts(job, Path(folder)) as attempts:
        for params, overrides in waiting:
            if time.monotonic() > deadline_s:
                break
            attempt = attempts.run({**FITTING, **overrides}, steps=options.steps)
            line = _noted(job.name, params, attempt)
            _append(line)
            print(line["outcome"], [round(step_s, 2) for step_s in line["step_s"]], params, flush=True)
    RECORDED.write_bytes(lzma.compress(NOTES.read_bytes(), preset=9))
    return 0


def _variant(job: Job, options: argparse.Namespace) -> Job:
    cpu = job.resources.cpu.model_copy(update={"worker_memory_cap_gb": options.cap_gb})
    own = {key: yaml.safe_load(value) for key, value in (one.split("=", 1) for one in options.set)}
    changes = {
        "name": options.variant or job.name,
        "resources": job.resources.model_copy(update={"cpu": cpu}),
        "verl": job.verl.model_copy(update={"overrides": {**job.verl.overrides, **own}}),
    }
    return job.model_copy(update=changes)


def _grid(job: Job) -> list[tuple[Overrides, Overrides]]:
    """Parameters and overrides of every candidate, the survivor first."""
    section = job.stage(StageName.SPEED)
    assert section is not None
    with open_preparer(job) as preparer:
        space = stage_space(job, section, preparer, dict(FITTING))
    own = space.user_params()
    found = {point_key(own): own}
    for params in sorted(_points(space), key=lambda point: (_engine(point) != _engine(own), _engine(point))):
        found.setdefault(point_key(params), params)
    return [(params, space.overrides(params)) for params in found.values()]


def _sampled(grid: list[tuple[Overrides, Overrides]], count: int) -> list[tuple[Overrides, Overrides]]:
    """As many of each engine's candidates, drawn by a fixed seed; the first of the grid is always there."""
    chance, by_engine = random.Random(1), dict[str, list[tuple[Overrides, Overrides]]]()
    for candidate in grid[1:]:
        by_engine.setdefault(_engine(candidate[0]), []).append(candidate)
    drawn = grid[:1]
    for number, candidates in enumerate(by_engine.values()):
        share = (count - len(drawn)) // (len(by_engine) - number)
        # The first of one shuffling: a smaller sample is part of a larger one, so that it can be repeated.
        kept = {id(one) for one in chance.sample(candidates, len(candidates))[:share]}
        drawn += [one for one in candidates if id(one) in kept]
    return drawn


def _points(space: ResolvedSpace) -> Iterator[dict[str, Value]]:
    """Every combination; a parameter whose condition does not hold is left out."""
    choices = [[(parameter.key, value) for value in parameter.choices] for parameter in space.parameters]
    for combination in itertools.product(*choices):
        params = dict(combination)
        yield {parameter.key: params[parameter.key] for parameter in space.active(params)}


def _engine(params: Mapping[str, Value]) -> str:
    return json.dumps([params.get(key) for key in ENGINE_KEYS])


def _left(
    grid: list[tuple[Overrides, Overrides]], noted: list[dict[str, Any]], repeats: int
) -> Iterator[tuple[Overrides, Overrides]]:
    """What is not noted yet, one repeat of everything before the next."""
    counts: dict[Any, int] = {}
    for line in noted:
        if "params" in line:
            key = point_key(line["params"])
            counts[key] = counts.get(key, 0) + 1
    for repeat in range(repeats):
        for params, overrides in grid:
            if counts.get(point_key(params), 0) <= repeat:
                yield params, overrides


def _noted(job: str, params: Overrides, attempt: RealAttempt) -> dict[str, Any]:
    failure = attempt.verdict.failure
    return {
        "job": job,
        "params": dict(params),
        "outcome": attempt.verdict.outcome.value,
        "kind": failure.kind if failure else None,
        "phase": failure.phase if failure else None,
        "step_s": attempt.column("timing_s/step"),
        "tokens": attempt.column("perf/total_num_tokens"),
        "reward": attempt.column("critic/rewards/mean"),
        "kl": attempt.column("actor/kl_loss"),
        "peak_gb": _peaks_gb(attempt),
        "start_s": attempt.evidence.first_step_s or attempt.wall_s,
        "cold_key": attempt.cold_key,
        "session": attempt.end.session,
        "session_number": attempt.end.session_number,
        "wall_s": attempt.wall_s,
    }


def _peaks_gb(attempt: RealAttempt) -> dict[str, float]:
    peaks_gb: dict[str, float] = {}
    for (_, phase), used_gb in attempt.evidence.peaks_gb.items():
        peaks_gb[phase] = max(peaks_gb.get(phase, 0.0), used_gb)
    return peaks_gb


def _provenance(job: Job, options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    return {
        "job": job.name,
        "recorded_utc": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "command": shlex.join(["python", "-m", "benchmarks.landscape.record", *arguments]),
        "steps": options.steps,
        "worker_memory_cap_gb": options.cap_gb,
        "verl": verl_version(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} core(s)",
        "space": "speed_tiny_cpu",
    }


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _append(line: Mapping[str, Any]) -> None:
    with open(NOTES, "a", encoding="utf-8") as notes:
        notes.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
