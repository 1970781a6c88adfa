"""`python -m benchmarks.first_feasible`: launches until a first configuration fits, where about 5 % do."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import optuna

from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.job.space import CategoricalParameter
from autotune.job.space_resolution import ResolvedSpace
from autotune.records import Overrides
from benchmarks.first_feasible import arms
from benchmarks.first_feasible.arms import MOST_LAUNCHES, Found, Setting
from benchmarks.first_feasible.landscape import (
    LOG_PROB_PHASES,
    Landscape,
    Size,
    Tightness,
    points,
    sizes,
    tightness,
)
from benchmarks.first_feasible.record import PEAKS, overrides_of

_JOB = Path(__file__).resolve().parents[2] / "jobs" / "tiny-cpu.yaml"
_LEFT_OUT = (1, 2, "=sequence_tokens * 2")
_HEADER = f"{'launches until the first that fits':36s} {'median':>7s} {'quartiles':>12s} {'none':>5s} {'rejected':>9s}"
Arm = Callable[[Setting, Overrides, int], Found]
ARMS: dict[str, Arm] = {
    "stage survive, with forecast": partial(arms.stage, forecast=True),
    "stage survive, no forecast": partial(arms.stage, forecast=False),
    "our sampler alone, with forecast": partial(arms.sampler, forecast=True),
    "our sampler alone, no forecast": partial(arms.sampler, forecast=False),
    "plain TPE": partial(arms.plain, tpe=True),
    "random": partial(arms.plain, tpe=False),
}


def main(arguments: list[str]) -> int:
    """Prints what is recorded and derived, the table, then one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_feasible", description=__doc__)
    parser.add_argument("--peaks", type=Path, default=PEAKS, help="recorded peaks")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.05, help="share of the space that is to fit")
    options = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    job, landscape = narrowed(load_job(_JOB)), Landscape.read(options.peaks)
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(dict(landscape.model)))
        setting = Setting(job, landscape, unset(), Path(folder))
        space = arms.space_of(setting, {})
        limit_frac = job.stages.survive.peak_memory_frac
        tight = tightness(landscape, space, wanted=options.share, limit_frac=limit_frac)
        setting = replace(setting, tight=tight)
        starts = _starts(setting, space, options.seeds)
        _print_setting(setting, space)
        print(_HEADER)
        found: dict[str, list[Found]] = {}
        for name, arm in ARMS.items():
            found[name] = [arm(setting, start, seed) for seed, start in enumerate(starts)]
            print(_line(name, found[name]), flush=True)
    print(json.dumps(_result(setting, space, found)))
    return 0


def unset() -> Tightness:
    """Before it is known how tight the device is to be."""
    return Tightness(limit_gb=0.0, capacity_gb=0.0, share=0.0, share_without_oom=0.0)


def narrowed(job: Job) -> Job:
    """The survive space without what changes no capped worker, and without its two smallest sizes.

    The smallest micro batches take the same memory, so no device could be so small that only one of them
    fits.
    """
    space = job.stages.survive.search_space
    parameters = {}
    for key, parameter in space.parameters.items():
        if not isinstance(parameter, CategoricalParameter) or "max_num" in key:
            continue
        # In Python, `true` is among the numbers as 1.
        choices = [choice for choice in parameter.choices if choice is True or choice not in _LEFT_OUT]
        parameters[key] = parameter.model_copy(update={"choices": choices})
    survive = job.stages.survive.model_copy(
        update={"search_space": space.model_copy(update={"parameters": parameters})}
    )
    # The job's own log-prob size is one of those left out, and a user's own value would come back in.
    verl = job.verl.model_copy(
        update={"overrides": {**job.verl.overrides, **overrides_of("micro_batch", 64)}}
    )
    stages = job.stages.model_copy(update={"survive": survive})
    return job.model_copy(update={"verl": verl, "stages": stages})


def _starts(setting: Setting, space: ResolvedSpace, count: int) -> list[Overrides]:
    """The user's own configuration of each seed: drawn from the points that run out of memory."""
    capacity_gb = setting.tight.capacity_gb
    hopeless = [
        params
        for params in points(space)
        if max(setting.landscape.peaks_gb(params.get).values()) > capacity_gb
    ]
    return [space.overrides(random.Random(seed).choice(hopeless)) for seed in range(count)]


def _print_setting(setting: Setting, space: ResolvedSpace) -> None:
    tight, landscape = setting.tight, setting.landscape
    print(f"{sum(1 for _ in points(space))} points, derived phase by phase from their sizes' peaks:")
    for origin, found in sorted(_origins(landscape, space).items()):
        print(f"  {origin}: {', '.join(found)}")
    print(
        f"device of {tight.capacity_gb:.3f} GB, limit {tight.limit_gb:.3f} GB: {tight.share:.1%} of the points "
        f"fit, {1 - tight.share_without_oom:.1%} run out of memory"
    )


def _origins(landscape: Landscape, space: ResolvedSpace) -> dict[str, list[str]]:
    """What is recorded, interpolated and so on."""
    used: dict[str, set[Size]] = {"update_actor": set(), "old_log_prob": set(), "ref_log_prob": set()}
    for params in points(space):
        update, log_prob = sizes(params.get)
        used["update_actor"].add(update)
        for phase in LOG_PROB_PHASES:
            used[phase].add(log_prob)
    found: dict[str, list[str]] = {}
    for phase, of_phase in used.items():
        for size in sorted(of_phase):
            found.setdefault(landscape.how(size, phase), []).append(f"{phase} {size[0]} {size[1]}")
    return found


def _line(name: str, results: Sequence[Found]) -> str:
    low, median, high = _quartiles(results)
    none = sum(one.launches is None for one in results)
    rejected = statistics.median(one.rejected for one in results)
    return f"{name:36s} {median:7g} {f'{low:g}..{high:g}':>12s} {none:5d} {rejected:9g}"


def _quartiles(results: Sequence[Found]) -> tuple[float, float, float]:
    """A search that found nothing counts with all its launches."""
    launches = [MOST_LAUNCHES if one.launches is None else one.launches for one in results]
    low, median, high = statistics.quantiles(launches, n=4, method="inclusive")
    return low, median, high


def _result(setting: Setting, space: ResolvedSpace, found: dict[str, list[Found]]) -> dict[str, object]:
    medians = {name: _quartiles(results)[1] for name, results in found.items()}
    ours = medians["stage survive, with forecast"]
    return {
        "benchmark": "first_feasible",
        "seeds": len(next(iter(found.values()))),
        "peaks": {origin: len(of) for origin, of in sorted(_origins(setting.landscape, space).items())},
        "share_that_fits": round(setting.tight.share, 4),
        "capacity_gb": round(setting.tight.capacity_gb, 4),
        "launches": {
            name: dict(zip(("q1", "median", "q3"), _quartiles(one), strict=True))
            for name, one in found.items()
        },
        "plain_tpe_over_ours": round(medians["plain TPE"] / ours, 2),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
