"""`python -m benchmarks.overhead [--trials 100 1000 10000]`: a table, then one JSON line.

Each measurement runs in a process of its own, with one slot. Milliseconds are the process's CPU time, which a
busy machine does not stretch; `sampler` is the part of a trial's that goes into Optuna's proposals; `wall` is the
clock's, replaying and waiting for disk included. `early` and `late` are milliseconds of a trial in the second and
the last tenth of the run: their ratio, and that of whole runs of different sizes, is the growth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WHO = ("autotune", "optuna", "ray tune")
GOAL_MS = 50.0
_COLUMNS = (
    ("ms/trial", "ms_per_trial", "{:9.1f}"),
    ("sampler", "sampler_ms", "{:8.1f}"),
    ("ms/row", "ms_per_row", "{:8.2f}"),
    ("early", "early_ms", "{:8.1f}"),
    ("late", "late_ms", "{:8.1f}"),
    ("wall", "wall_ms", "{:8.1f}"),
    ("memory MB", "memory_mb", "{:10.0f}"),
    ("disk MB", "database_mb", "{:8.1f}"),
)


def main(arguments: list[str]) -> int:
    """Prints the table and the JSON line; 0 where ours meets the goal at every size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rows", type=int, default=6, help="metric rows of one trial")
    parser.add_argument("--who", nargs="+", choices=WHO, default=list(WHO))
    parser.add_argument("--limit-s", type=float, default=240.0, help="a peer is cut off after this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(_measure(options.one, options.trials[0], options.rows, options.limit_s)))
        return 0
    print(f"{'who':10s} {'asked':>7s} {'trials':>7s} " + " ".join(f"{c[0]:>9s}" for c in _COLUMNS))
    found: list[dict[str, Any]] = []
    for who in options.who:
        for trials in options.trials:
            cut_off = [one for one in found if one["who"] == who and one.get("trials", trials) < one["asked"]]
            if cut_off:
                print(
                    f"{who:10s} {trials:7d}  not tried: {cut_off[0]['asked']} were not done in {options.limit_s:g} s"
                )
                continue
            found.append({"who": who, "asked": trials, **_in_its_own_process(who, trials, options)})
            print(_line(found[-1]), flush=True)
    resolving = _resolving_ms() if "autotune" in options.who else None
    if resolving is not None:
        print(
            f"autotune besides resolves verl's configuration of each trial: {resolving:.0f} ms, whatever the number"
        )
    ours = [one for one in found if one["who"] == "autotune"]
    print(
        json.dumps(
            {"benchmark": "overhead", "resolving_ms": resolving, "results": found, "ratios": _ratios(found)}
        )
    )
    return 0 if all(one["ms_per_trial"] < GOAL_MS for one in ours) else 1


def _in_its_own_process(who: str, trials: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.overhead", "--one", who, "--trials", str(trials)]
    command += ["--rows", str(options.rows), "--limit-s", str(options.limit_s)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer"}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _measure(who: str, trials: int, rows: int, limit_s: float) -> dict[str, float]:
    from benchmarks.overhead import ours, peers

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if who == "autotune":
            return ours.measure(trials, rows, folder)
        if who == "optuna":
            return peers.measure_optuna(trials, rows, folder, limit_s)
        return peers.measure_ray_tune(trials, rows, folder, limit_s)


def _resolving_ms(times: int = 8) -> float | None:
    """Milliseconds to resolve one trial's configuration; None where verl is not installed."""
    import time

    from autotune.errors import VerlConfigError
    from autotune.job.model import VerlSection
    from autotune.verl_config.compose import compose

    section = VerlSection(overrides={"actor_rollout_ref.rollout.name": "vllm"})
    try:
        compose(section, _as_a_trial(0)).yaml()
    except VerlConfigError:
        return None
    began_s = time.process_time()
    for number in range(1, times + 1):
        compose(section, _as_a_trial(number)).yaml()
    return 1e3 * (time.process_time() - began_s) / times


def _as_a_trial(number: int) -> dict[str, Any]:
    """What differs from trial to trial: its folder, and here the sequences that are generated at once."""
    folder = f"results/attempts/speed-{number}-0"
    return {"trainer.default_local_dir": folder, "actor_rollout_ref.rollout.max_num_seqs": 16 + number}


def _line(one: Mapping[str, Any]) -> str:
    head = f"{one['who']:10s} {one['asked']:7d} "
    if "error" in one:
        return f"{head} failed: {one['error']}"
    cells = (form.format(one[key]) if key in one else "-" for _, key, form in _COLUMNS)
    return f"{head}{one['trials']:7.0f} " + " ".join(f"{cell:>9s}" for cell in cells)


def _ratios(found: list[dict[str, Any]]) -> dict[str, float]:
    """A peer's milliseconds for a trial and its rows over ours, and ours late over early, by size."""
    ratios: dict[str, float] = {}
    whole = {
        (one["who"], one["asked"]): one["ms_per_trial"] + one["ms_per_row"] * one["rows"] / one["trials"]
        for one in found
        if "error" not in one
    }
    for (who, asked), ms in whole.items():
        if who != "autotune" and ("autotune", asked) in whole:
            ratios[f"{who} / autotune at {asked}"] = round(ms / whole["autotune", asked], 2)
    smallest = {who: min(size for one, size in whole if one == who) for who, _ in whole}
    for (who, asked), ms in whole.items():
        if asked != smallest[who]:
            ratios[f"{who} at {asked} / at {smallest[who]}"] = round(ms / whole[who, smallest[who]], 2)
    for one in found:
        if one.get("early_ms") and one.get("late_ms"):
            ratios[f"{one['who']} late / early at {one['asked']}"] = round(
                one["late_ms"] / one["early_ms"], 2
            )
    return ratios


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
