"""`python -m benchmarks.warm`: the same candidates in one warm session and in processes of their own.

Real verl on the tiny CPU job, one attempt at a time. Prints a line a pair, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.controller.assembly import open_preparer
from autotune.job.loading import load_job
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.records import AttemptEnd, AttemptRole, MetricRow, StageName, Value
from autotune.trial.launcher import RayLauncher
from autotune.trial.preparation import Preparer, Refusal
from autotune.trial.request import AttemptRequest

JOB = Path(__file__).resolve().parents[2] / "jobs" / "tiny-cpu.yaml"
_ACTOR = "actor_rollout_ref.actor"
FITTING: Mapping[str, Value] = {f"{_ACTOR}.ppo_micro_batch_size_per_gpu": 8}
"""What lets the tiny job survive; each candidate changes something over it."""
CANDIDATES: Sequence[Mapping[str, Value]] = (
    {},
    {f"{_ACTOR}.optim.lr": 1e-3},
    {f"{_ACTOR}.ppo_micro_batch_size_per_gpu": 2},
    {f"{_ACTOR}.optim.lr": 2e-3, f"{_ACTOR}.kl_loss_coef": 0.2},
    {
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 16,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 16,
    },
    {f"{_ACTOR}.clip_ratio_high": 0.3, f"{_ACTOR}.optim.lr": 1e-3},
    {
        f"{_ACTOR}.use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
        "actor_rollout_ref.ref.log_prob_use_dynamic_bsz": True,
        f"{_ACTOR}.ppo_max_token_len_per_gpu": 896,
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": 1792,
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": 1792,
    },
    {f"{_ACTOR}.entropy_coeff": 0.01},
    {"actor_rollout_ref.rollout.temperature": 0.8},
    {f"{_ACTOR}.ppo_mini_batch_size": 4},
    {},
    {f"{_ACTOR}.optim.lr": 1e-3},
)


@dataclass(frozen=True)
class Measured:
    """One attempt, as it was measured."""

    wall_s: float
    steps_s: float
    tokens_per_s: float
    rewards: tuple[float, ...]
    peak_frac: float
    exit_code: int | None

    @property
    def beyond_steps_s(self) -> float:
        """What it cost that was no step of its own."""
        return self.wall_s - self.steps_s


def main(arguments: list[str]) -> int:
    """Prints the comparison; 0 where every attempt ran to its end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warm", description=__doc__)
    parser.add_argument("--job", type=Path, default=JOB)
    parser.add_argument("--pairs", type=int, default=len(CANDIDATES))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warm-only", action="store_true", help="leave the cold attempts out")
    options = parser.parse_args(arguments)
    job = load_job(options.job)
    candidates = [{**FITTING, **change} for change in CANDIDATES[: options.pairs]]
    with tempfile.TemporaryDirectory() as folder, open_preparer(job) as preparer:
        bench = _Bench(job, preparer, Path(folder), options.steps)
        warm = bench.measure_all(candidates, "warm")
        cold = [] if options.warm_only else bench.measure_all(candidates, "cold")
    _report(warm, cold)
    return 0 if all(one.exit_code == 0 for one in [*warm, *cold]) else 1


class _Bench:
    def __init__(self, job: Job, preparer: Preparer, folder: Path, steps: int) -> None:
        section = job.stage(StageName.SPEED)
        assert section is not None
        self._section = section.model_copy(update={"steps": steps})
        self._job, self._preparer = job, preparer
        self._paths = JobPaths(folder, job.name)

    def measure_all(self, candidates: Sequence[Mapping[str, Value]], word: str) -> list[Measured]:
        """Every candidate, one after the other, on a Ray of their own."""
        launcher = RayLauncher(self._job.resources)
        try:
            return [
                self._measure(launcher, candidate, word, number)
                for number, candidate in enumerate(candidates)
            ]
        finally:
            launcher.close()

    def _measure(
        self, launcher: RayLauncher, candidate: Mapping[str, Value], word: str, number: int
    ) -> Measured:
        paths = self._paths.attempt(StageName.SPEED, number, 0 if word == "warm" else 1)
        request = self._preparer.request(
            self._section, dict(candidate), AttemptRole.MEASURE, paths, f"{word}{number}"
        )
        if isinstance(request, Refusal):
            raise SystemExit(f"{candidate}: {request.cause}")
        measured = _run(launcher, request if word == "warm" else replace(request, session_key=None))
        print(_line(word, number, candidate, measured), flush=True)
        return measured


def _run(launcher: RayLauncher, request: AttemptRequest) -> Measured:
    started_s = time.monotonic()
    launcher.start(request)
    rows: list[MetricRow] = []
    while True:
        for _attempt_id, event in launcher.poll():
            if isinstance(event, MetricRow):
                rows.append(event)
            if isinstance(event, AttemptEnd):
                if event.exit_code != 0:
                    print("\n".join(event.tail), file=sys.stderr)
                return _measured(time.monotonic() - started_s, rows, event)
        time.sleep(0.1)


def _measured(wall_s: float, rows: Sequence[MetricRow], end: AttemptEnd) -> Measured:
    steps_s = [row.values.get("timing_s/step") or 0.0 for row in rows]
    tokens = [row.values.get("perf/total_num_tokens") or 0.0 for row in rows]
    steady = slice(min(2, len(rows) - 1), None)
    return Measured(
        wall_s=wall_s,
        steps_s=sum(steps_s),
        tokens_per_s=sum(tokens[steady]) / max(sum(steps_s[steady]), 1e-9),
        rewards=tuple(row.values.get("critic/rewards/mean") or 0.0 for row in rows),
        peak_frac=0.0,
        exit_code=end.exit_code,
    )


def _line(word: str, number: int, candidate: Mapping[str, Value], one: Measured) -> str:
    changed = {key.rsplit(".", 1)[1]: value for key, value in candidate.items()}
    rewards = " ".join(f"{reward:.2f}" for reward in one.rewards)
    return (
        f"{word} {number:2d}  {one.wall_s:6.1f} s, {one.beyond_steps_s:6.1f} s beyond its steps, "
        f"{one.tokens_per_s:6.0f} tokens/s, reward {rewards}  {changed}"
    )


def _report(warm: Sequence[Measured], cold: Sequence[Measured]) -> None:
    later = [one.beyond_steps_s for one in warm[1:]]
    result: dict[str, object] = {
        "benchmark": "warm",
        "pairs": len(cold),
        "warm_first_beyond_steps_s": round(warm[0].beyond_steps_s, 1),
        "warm_beyond_steps_s": round(statistics.median(later), 2) if later else None,
    }
    if cold:
        ratios = [w.tokens_per_s / c.tokens_per_s for w, c in zip(warm, cold, strict=True)]
        rewards = [w.rewards[-1] - c.rewards[-1] for w, c in zip(warm, cold, strict=True)]
        beyond_s = statistics.median(one.beyond_steps_s for one in cold)
        result |= {
            "cold_beyond_steps_s": round(beyond_s, 1),
            "tokens_per_s_ratio_median": round(statistics.median(ratios), 3),
            "tokens_per_s_ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            "last_reward_difference_mean": round(statistics.mean(rewards), 4),
            "last_reward_difference_sd": round(statistics.stdev(rewards), 4) if len(rewards) > 1 else None,
        }
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
