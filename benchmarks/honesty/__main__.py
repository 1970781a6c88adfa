"""`python -m benchmarks.honesty`: studies of noise that claim a gain, power on planted gains, their bias."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from autotune.job.model import FinishSection
from benchmarks.honesty.replay import Noise, Replay, between_runs, recorded_runs
from benchmarks.honesty.study import Study, run_study

_MOST_FALSE_CLAIMS = 0.05
_MOST_BIAS = 0.02
_LEAST_CLAIMS = 0.05
"""Share of studies that claim a gain below which their few claims say little of a bias."""
_NOTHING = (0.0,)
_GAINS = (0.0, 0.05, 0.10, 0.30)


def main(arguments: list[str]) -> int:
    """Prints the table, then one JSON line; 0 where false claims and bias keep their limits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honesty", description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="studies of each line")
    parser.add_argument("--trials", type=int, default=16, help="trials of the search in each study")
    parser.add_argument("--steps", type=int, default=8, help="steps of a trial of the search")
    parser.add_argument("--finish-steps", type=int, default=15, help="steps of a run of the finish")
    parser.add_argument("--repeats", type=int, default=FinishSection().repeats, help="pairs that decide")
    parser.add_argument(
        "--repeats-after", type=int, default=FinishSection().repeats_after, help="pairs that measure a gain"
    )
    options = parser.parse_args(arguments)
    section = FinishSection(
        steps=options.finish_steps, repeats=options.repeats, repeats_after=options.repeats_after
    )
    runs = recorded_runs()
    sigma, df = between_runs(runs)
    steady = sum(len(run.steady) for run in runs)
    print(f"{len(runs)} real runs, {steady} steady steps; noise between runs {sigma:.1%} of speed, {df} df")
    print(_HEADER)
    started, started_cpu = time.perf_counter(), time.process_time()
    lines = []
    for noise, gains in (
        (Noise("as recorded", sigma), _GAINS),
        (Noise("a quarter of it", sigma / 4), _GAINS),
        (Noise("twice as much", 2 * sigma), _NOTHING),
        (Noise("machine drifts", sigma, drift_frac=-0.5), _NOTHING),
    ):
        for place, gain in enumerate(gains):
            replays = (Replay(runs, noise, seed=place * 100_000 + index) for index in range(options.studies))
            studies = [
                run_study(replay, gain, trials=options.trials, steps=options.steps, section=section)
                for replay in replays
            ]
            lines.append(_summary(noise, gain, studies))
            print(_line(lines[-1]), flush=True)
    false_claims = max(line["claims"] for line in lines if line["planted"] == 0.0)
    biases = [line["bias"] for line in lines if line["planted"] and line["claims"] >= _LEAST_CLAIMS]
    bias = max((abs(bias) for bias in biases if bias is not None), default=None)
    result = {
        "benchmark": "honesty",
        "real_runs": len(runs),
        "steady_steps": steady,
        "between_runs": round(sigma, 4),
        "between_runs_df": df,
        "studies_each": options.studies,
        "false_claims": false_claims,
        "bias": bias,
        "lines": lines,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - started_cpu, 1),
    }
    print(json.dumps(result))
    return 0 if false_claims <= _MOST_FALSE_CLAIMS and bias is not None and bias <= _MOST_BIAS else 1


_HEADER = (
    f"{'noise':15s} {'planted':>7s} {'search says':>11s} {'better':>6s} {'not better':>10s} {'inconclusive':>12s} "
    f"{'claimed':>7s} {'bias':>6s} {'+-':>5s} {'scatter':>7s} {'uncorrected':>11s} {'of all':>6s} {'runs':>5s}"
)


def _summary(noise: Noise, gain: float, studies: list[Study]) -> dict[str, Any]:
    """Shares over all studies; the gain of those that claim one, and how far it is from the winner's own.

    `bias` is the mean of claimed less true gain, `+-` its standard error over the studies that claim, and
    `scatter` the root of the mean square; `uncorrected` is the bias of the mean of the pairs that decided,
    `of all` the same over the studies that claim nothing too.
    """
    outcomes = [study.verdict.outcome.value for study in studies]
    claims = [study for study in studies if study.claims]
    off = [error for study in claims if (error := _off(study.claimed_gain, study)) is not None]
    return {
        "noise": noise.name,
        "planted": gain,
        "searched_gain": _mean([study.searched_gain for study in studies]),
        "claims": len(claims) / len(studies),
        "not_better": outcomes.count("not better") / len(studies),
        "inconclusive": outcomes.count("inconclusive") / len(studies),
        "claimed_gain": _mean([study.claimed_gain for study in claims]),
        "bias": _mean(off),
        "bias_standard_error": _rounded(
            statistics.stdev(off) / math.sqrt(len(off)) if len(off) > 1 else None
        ),
        "scatter": _rounded(math.sqrt(statistics.fmean(error**2 for error in off)) if off else None),
        "bias_uncorrected": _mean([_off(study.estimate, study) for study in claims]),
        "bias_of_all_estimates": _mean([_off(study.estimate, study) for study in studies]),
        "winner_is_start": sum(study.true_gain < gain for study in studies) / len(studies),
        "finish_runs": _mean([float(study.runs) for study in studies]),
    }


def _off(gain: float | None, study: Study) -> float | None:
    return None if gain is None else gain - study.true_gain


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(statistics.fmean(known) if known else None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _line(line: dict[str, Any]) -> str:
    def share(name: str, digits: int = 1) -> str:
        return "-" if line[name] is None else f"{line[name]:.{digits}%}"

    return (
        f"{line['noise']:15s} {share('planted', 0):>7s} {share('searched_gain'):>11s} {share('claims'):>6s} "
        f"{share('not_better'):>10s} {share('inconclusive'):>12s} {share('claimed_gain'):>7s} {share('bias'):>6s} "
        f"{share('bias_standard_error'):>5s} {share('scatter'):>7s} {share('bias_uncorrected'):>11s} {share('bias_of_all_estimates'):>6s} {line['finish_runs']:5.1f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
