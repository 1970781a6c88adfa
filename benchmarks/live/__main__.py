"""`python -m benchmarks.live`: the tiny job's speed stage by autotune, then by Ray Tune, on real verl.

The same space, the same first candidate, as many trials of as many steps. Ray Tune's ASHA with OptunaSearch, driven
as `benchmarks.search` drives it, starts and ends its trials through the same launcher, each in a process of its own:
it has no other way. Prints a line a trial, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autotune.controller.assembly import open_preparer
from autotune.controller.ladder_run import stage_space
from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.job.resolved_space import ResolvedSpace
from autotune.judge.evidence import Evidence
from autotune.records import Overrides, StageName
from autotune.store.store import Store
from benchmarks.real_attempts import RealAttempts, real_attempts
from benchmarks.search.drive import OnRow, Told
from benchmarks.search.ray_tune import asha
from benchmarks.search.track import steady_speed
from benchmarks.tiny import ROOT, tiny_job, written
from benchmarks.warm.__main__ import FITTING


class LiveTrials:
    """What `benchmarks.search` calls a driver and its track, on real verl."""

    def __init__(self, attempts: RealAttempts, space: ResolvedSpace, *, trials: int, steps: int) -> None:
        self._attempts, self._space, self._most, self._steps = attempts, space, trials, steps
        self.track = self
        self.trials = 0
        self.best = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all trials are used."""
        return self.trials >= self._most

    def measured(self, params: Overrides, speed: float) -> None:
        """A figure that the search would hand out."""
        self.best = max(self.best, speed)

    def run(self, params: Overrides, on_row: OnRow) -> Told:
        """One trial in a process of its own, to its end or until `on_row` says no."""
        self.trials += 1

        def speed_of(evidence: Evidence) -> float | None:
            return steady_speed([row.values.get("perf/throughput") or 0.0 for row in evidence.rows])

        def goes_on(evidence: Evidence) -> bool:
            speed = speed_of(evidence)
            return speed is None or on_row(len(evidence.rows), speed)

        overrides = {**FITTING, **self._space.overrides(params)}
        attempt = self._attempts.run(overrides, steps=self._steps, cold=True, goes_on=goes_on)
        speed, asked = speed_of(attempt.evidence), attempt.end.asked
        failed = attempt.end.exit_code != 0 and not asked
        word = "failed" if failed else "stopped" if asked else "completed"
        print(
            f"ray tune {self.trials}: {word}, {speed or 0.0:.0f} tokens/s, {attempt.wall_s:.0f} s", flush=True
        )
        return Told(params, speed, not failed and not asked, failed)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Prints wall time and best found of both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="bench-live-"))
    job_file = _job(folder, options)
    found = {"autotune": _ours(folder, job_file), "ray tune": _theirs(folder, load_job(job_file), options)}
    ours, theirs = found["autotune"], found["ray tune"]
    ratios = {
        "wall": round(theirs["wall_s"] / ours["wall_s"], 2),
        "best": round(ours["best_tokens_per_s"] / theirs["best_tokens_per_s"], 3),
    }
    print(json.dumps({"benchmark": "live", "trials": options.trials, **found, "ratios": ratios}))
    return 0


def _ours(folder: Path, job_file: Path) -> dict[str, float]:
    started_s = time.monotonic()
    command = [sys.executable, "-m", "autotune", "run", str(job_file), "--stage", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    wall_s = time.monotonic() - started_s
    with Store.read(f"sqlite:///{JobPaths(folder / 'results', job_file.stem).database}") as store:
        result = store.stage_results()[StageName.SPEED]
    best = result.best_figures.tokens_per_s_per_gpu if result.best_figures is not None else None
    return {"wall_s": round(wall_s, 1), "trials": result.trials, "best_tokens_per_s": round(best or 0.0, 1)}


def _theirs(folder: Path, job: Job, options: argparse.Namespace) -> dict[str, float]:
    section = job.stage(StageName.SPEED)
    assert section is not None
    with open_preparer(job) as preparer:
        space = stage_space(job, section, preparer, {})
    asked = SimpleNamespace(
        space=space, start=SimpleNamespace(params=space.user_params()), steps=options.steps
    )
    started_s = time.monotonic()
    with real_attempts(job, folder / "ray-tune") as attempts:
        live: Any = LiveTrials(attempts, space, trials=options.trials, steps=options.steps)
        asha(live, asked, options.seed)  # type: ignore[arg-type]
    wall_s = time.monotonic() - started_s
    return {"wall_s": round(wall_s, 1), "trials": live.trials, "best_tokens_per_s": round(live.best, 1)}


def _job(folder: Path, options: argparse.Namespace) -> Path:
    """The shipped tiny job from its survivor on."""
    job = tiny_job(folder, "live")
    job["verl"]["overrides"].update(FITTING)
    job["stages"]["speed"] |= {"steps": options.steps, "trials": options.trials, "seed": options.seed}
    return written(folder, job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
