"""`python -m benchmarks.extensions`: the tiny job on two ranks, each extension on in turn, on real verl.

Every line is one cold trial; the first one has everything off, and the others are ratios to it. Trials run
one after the other. Two runs of one configuration differ as well: `off again`, the last line, shows by
how much.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.job.paths import AttemptPaths, JobPaths
from autotune.judge.input_pipeline import input_wait_frac
from autotune.records import Figures, MetricRow, Outcome
from autotune.store.rank_load import RankLoad, read_rank_load
from autotune.store.store import Store
from benchmarks.tiny import ROOT, tiny_job, written

_MICRO_BATCH = 4
"""Several micro batches a rank and pass, or there is nothing to sort."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "off": {},
    "length bucketing": {"extensions": {"length_bucketing": True}},
    "adaptive clipping": {"extensions": {"adaptive_clipping": 0.01}},
    "2 loader processes": {"overrides": {"data.dataloader_num_workers": 2}},
    "token check": {"extensions": {"token_check": True}},
    "load monitor off": {"load_monitor": False},
    "off again": {},
}
"""Name to what differs from the tiny job."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One trial's figures."""

    figures: Figures
    rows: tuple[MetricRow, ...]
    load: RankLoad | None
    seconds: float


def main(arguments: list[str]) -> int:
    """Prints the table, then one JSON line; 1 where a trial did not complete."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extensions", description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of a trial")
    parser.add_argument("--folder", type=Path, help="where to keep the trials; default: a temporary folder")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), help="these lines alone, beside `off`")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-extensions-"))
    found: dict[str, Measured] = {}
    print(_HEADER, flush=True)
    for name, changes in VARIANTS.items():
        if options.only and name not in (*options.only, "off"):
            continue
        measured = _run(folder, name, changes, options.steps)
        if measured is None:
            print(f"{name:20s} did not complete; see {folder}", flush=True)
            return 1
        found[name] = measured
        print(_line(name, measured, found["off"]), flush=True)
    print(json.dumps({"benchmark": "extensions", "steps": options.steps, **_result(found)}))
    return 0


def _run(folder: Path, name: str, changes: Mapping[str, Any], steps: int) -> Measured | None:
    """Runs one trial by the real command; None where it did not complete."""
    job = _job(folder, f"bench-{name.replace(' ', '-')}", changes, steps)
    started = time.monotonic()
    command = [sys.executable, "-m", "autotune", "run", str(job)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    paths = JobPaths(folder / "results", job.stem)
    with Store.read(f"sqlite:///{paths.database}") as store:
        trial = store.trials()[0]
        attempt = store.attempts(trial.id)[-1]
        rows = tuple(store.metric_rows(attempt.attempt_id))
    if trial.verdict is None or trial.verdict.outcome is not Outcome.COMPLETED:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        return None
    for warning in trial.verdict.warnings:
        print(f"  {name}: {warning}", flush=True)
    load = read_rank_load(AttemptPaths(Path(attempt.folder)))
    return Measured(figures=trial.verdict.figures, rows=rows, load=load, seconds=time.monotonic() - started)


def _job(folder: Path, name: str, changes: Mapping[str, Any], steps: int) -> Path:
    """The shipped tiny job on two ranks with one trial and these changes."""
    job = tiny_job(folder, name)
    own = job["verl"]["overrides"]
    own["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] = _MICRO_BATCH
    for role in ("rollout", "ref"):
        own[f"actor_rollout_ref.{role}.log_prob_micro_batch_size_per_gpu"] = _MICRO_BATCH
    own["actor_rollout_ref.rollout.max_num_seqs"] = 64
    own.update(changes.get("overrides", {}))
    job["resources"]["gpus_per_trial"] = 2
    job["extensions"] = changes.get("extensions", {})
    job["load_monitor"] = changes.get("load_monitor", True)
    survive = {"search_space": "survive_tiny_cpu", "steps": steps, "trials": 1, "certificate": None}
    job["stages"] = {"survive": {**survive, "seed": 1}}
    return written(folder, job)


_HEADER = (
    f"{'':20s} {'tokens/s':>9s} {'step':>7s} {'reward':>7s} {'KL':>7s} {'balance':>13s} {'padding':>13s}"
    f" {'wait':>6s} {'monitor':>8s} {'trial':>6s}\n"
    f"{'':20s} {'/ off':>9s} {'s':>7s} {'/ off':>7s} {'':>7s} {'before after':>13s} {'update logp':>13s}"
    f" {'%':>6s} {'% step':>8s} {'s':>6s}"
)


def _line(name: str, measured: Measured, off: Measured) -> str:
    figures, load = measured.figures, measured.load
    balance = _pair(load and load.imbalance(balanced=False), load and load.imbalance(balanced=True), ".3f")
    padding = _pair(load and load.padding_frac(), load and load.padding_frac("log_prob"), ".1%")
    cost = None if load is None else load.cost_frac()
    wait = input_wait_frac(measured.rows)
    return (
        f"{name:20s} {_ratio(figures.tokens_per_s_per_gpu, off.figures.tokens_per_s_per_gpu):>9s}"
        f" {figures.step_s or 0.0:7.2f} {_ratio(figures.reward, off.figures.reward):>7s}"
        f" {figures.kl or 0.0:7.4f} {balance:>13s} {padding:>13s}"
        f" {'-' if wait is None else f'{wait:.2%}':>6s} {'-' if cost is None else f'{cost:.3%}':>8s}"
        f" {measured.seconds:6.0f}"
    )


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.3f}x" if ours is not None and theirs else "-"


def _pair(before: float | None, after: float | None, form: str) -> str:
    return "-" if before is None or after is None else f"{before:{form}} {after:{form}}"


def _result(found: Mapping[str, Measured]) -> dict[str, Any]:
    """The figures of each line, for machines."""
    return {
        name: {
            "tokens_per_s_per_gpu": measured.figures.tokens_per_s_per_gpu,
            "tokens_per_s_noise_frac": measured.figures.tokens_per_s_noise_frac,
            "reward": measured.figures.reward,
            "kl": measured.figures.kl,
            "imbalance": measured.load and measured.load.imbalance(balanced=True),
            "padding_frac": measured.load and measured.load.padding_frac(),
            "monitor_cost_frac": measured.load and measured.load.cost_frac(),
            "input_wait_frac": input_wait_frac(measured.rows),
        }
        for name, measured in found.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
