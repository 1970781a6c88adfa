"""`python -m benchmarks.quality`: the tiny job's quality stage from learning settings that are poor on purpose.

Real verl: for each setting and seed one `autotune run` of that stage alone. Prints a line each, then one JSON
line. What is compared is learning, not speed, so runs may share the machine (`--at-once`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.job.paths import JobPaths
from autotune.records import StageName, StageResult
from autotune.store.store import Store
from autotune.store.stored import StoredTrial
from autotune.verl_plugin.tiny_job import make_tiny_job
from benchmarks.tiny import FAST, ROOT, tiny_job, written

_LR = "actor_rollout_ref.actor.optim.lr"
SETTINGS: Mapping[str, float] = {"timid": 1.0e-4, "bold": 2.0e-3}
"""Learning rates: one hardly moves the policy in 15 steps, one drifts over the guard's KL limit."""
_ACCEPTED = {True: "accepted", False: "not accepted"}


@dataclass(frozen=True)
class Ended:
    """How one stage ended."""

    setting: str
    seed: int
    result: StageResult | None
    trials: list[StoredTrial]
    wall_s: float

    @property
    def met(self) -> bool:
        """Whether the stage's acceptance was met."""
        return self.result is not None and self.result.acceptance_met


def main(arguments: list[str]) -> int:
    """Prints what came of every seed; 0 where each stage came to its end, accepted or not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=6, help="at most, of a stage")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--folder", type=Path, help="where to keep the trials; default: a temporary folder")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-quality-"))
    make_tiny_job(folder / "tiny")
    # Seed by seed, so that a run that is cut short has seen each setting.
    asked = [(setting, seed) for seed in range(1, options.seeds + 1) for setting in options.only]
    with ThreadPoolExecutor(options.at_once) as pool:
        ended = []
        for one in pool.map(lambda pair: _run(folder, *pair, options.trials), asked):
            ended.append(one)
            print(_lines(one), flush=True)
    print(json.dumps({"benchmark": "quality", "seeds": options.seeds, **_summary(ended)}))
    return 0 if all(one.result is not None for one in ended) else 1


def _run(folder: Path, setting: str, seed: int, trials: int) -> Ended:
    job = _job(folder, setting, seed, trials)
    started_s = time.monotonic()
    command = [sys.executable, "-m", "autotune", "run", str(job), "--stage", "quality"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    with Store.read(f"sqlite:///{JobPaths(folder / 'results', job.stem).database}") as store:
        result, tried = store.stage_results().get(StageName.QUALITY), store.trials()
    if result is None:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
    return Ended(setting, seed, result, tried, time.monotonic() - started_s)


def _job(folder: Path, setting: str, seed: int, trials: int) -> Path:
    """The shipped tiny job with a fitting configuration and this learning rate."""
    job = tiny_job(folder, f"{setting}-{seed}")
    # The seed is the whole run's: the sampler's, the order of the data and the rollout's.
    seeds = {"data.seed": seed, "actor_rollout_ref.rollout.seed": seed}
    job["verl"]["overrides"].update({**FAST, _LR: SETTINGS[setting], **seeds})
    job["stages"]["quality"] |= {"seed": seed, "trials": trials}
    return written(folder, job)


def _lines(one: Ended) -> str:
    statement = one.result.statement if one.result is not None else "did not come to its end"
    head = (
        f"{one.setting} seed {one.seed}: {_ACCEPTED[one.met]}, {len(one.trials)} trials, {one.wall_s:.0f} s"
    )
    return "\n".join([f"{head}; {statement}", *(f"    {_trial(trial)}" for trial in one.trials)])


def _trial(trial: StoredTrial) -> str:
    verdict = trial.verdict
    if verdict is None:
        return f"#{trial.number} has no verdict"
    figures = verdict.figures
    kind = f" ({verdict.failure.kind})" if verdict.failure is not None else ""
    shown = [f"{value:.3f}" if value is not None else "-" for value in (figures.reward, figures.kl)]
    return (
        f"#{trial.number} {verdict.outcome.value}{kind}: lr {trial.candidate.params.get(_LR, 0.0):.2e}, "
        f"reward {shown[0]}, KL {shown[1]}, {figures.steps} steps; {trial.candidate.origin}"
    )


def _summary(ended: list[Ended]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in dict.fromkeys(one.setting for one in ended):
        of = [one for one in ended if one.setting == setting]
        found[setting] = {"accepted": sum(one.met for one in of), "of": len(of)}
        found[setting]["trials"] = [len(one.trials) for one in of]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
