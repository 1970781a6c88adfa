"""`python -m benchmarks.first_feasible.live`: the benchmark's tight job once on real verl, by the real command.

Its space, a start that runs out of memory, and a workers' cap under which about 5 % of the points fit by the
recorded peaks. Prints a line a trial, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.job.space import SearchSpace
from autotune.records import Outcome
from autotune.store.store import Store
from benchmarks.first_feasible import arms
from benchmarks.first_feasible.__main__ import narrowed, unset
from benchmarks.first_feasible.arms import Setting
from benchmarks.first_feasible.landscape import Landscape, Tightness, tightness
from benchmarks.first_feasible.record import PEAKS, overrides_of
from benchmarks.tiny import ROOT, tiny_job, written


def main(arguments: list[str]) -> int:
    """0 where a configuration was accepted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_feasible.live", description=__doc__)
    parser.add_argument("--share", type=float, default=0.05, help="share of the space that is to fit")
    parser.add_argument("--trials", type=int, default=20, help="at most")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="bench-first-feasible-"))
    job = narrowed(load_job(ROOT / "jobs" / "tiny-cpu.yaml"))
    tight = _tightness(job, options.share)
    job_file = _job(folder, job.stages.survive.search_space, tight, options.trials)
    done = subprocess.run(
        [sys.executable, "-m", "autotune", "run", str(job_file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    with Store.read(f"sqlite:///{JobPaths(folder / 'results', job_file.stem).database}") as store:
        trials = store.trials()
    judged = [trial for trial in trials if trial.verdict is not None]
    launched = [trial for trial in judged if trial.verdict and trial.verdict.outcome is not Outcome.REJECTED]
    first = next((place for place, trial in enumerate(launched, 1) if trial.accepted), None)
    result = {
        "benchmark": "first_feasible_live",
        "share_that_fits": round(tight.share, 4),
        "capacity_gb": round(tight.capacity_gb, 4),
        "launches_until_accepted": first,
        "launched": len(launched),
        "rejected": len(judged) - len(launched),
    }
    print(json.dumps(result))
    return 0 if first is not None else 1


def _tightness(job: Job, share: float) -> Tightness:
    landscape = Landscape.read(PEAKS)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "config.json").write_text(json.dumps(dict(landscape.model)), encoding="utf-8")
        space = arms.space_of(Setting(job, landscape, unset(), Path(name)), {})
    return tightness(landscape, space, wanted=share, limit_frac=job.stages.survive.peak_memory_frac)


def _job(folder: Path, searched: SearchSpace, tight: Tightness, trials: int) -> Path:
    job = tiny_job(folder, "first-feasible")
    job["verl"]["overrides"].update(overrides_of("micro_batch", 64))
    job["resources"]["cpu"]["worker_memory_cap_gb"] = round(tight.capacity_gb, 4)
    space = searched.model_dump(mode="json", exclude_none=True)
    job["stages"] = {"survive": {"search_space": space, "steps": 4, "trials": trials, "seed": 1}}
    return written(folder, job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
