"""`python -m benchmarks.warm`: the same candidates in one warm session and in processes of their own.

Real verl on the tiny CPU job, one attempt at a time. Prints a line a pair, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.job.loading import load_job
from autotune.records import Value
from benchmarks.real_attempts import RealAttempt, real_attempts

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
    measured: dict[str, list[Measured]] = {"warm": [], "cold": []}
    with tempfile.TemporaryDirectory() as folder, real_attempts(job, Path(folder)) as attempts:
        for word in ("warm",) if options.warm_only else ("warm", "cold"):
            for number, change in enumerate(CANDIDATES[: options.pairs]):
                attempt = attempts.run({**FITTING, **change}, steps=options.steps, cold=word == "cold")
                if attempt.end.exit_code != 0:
                    print("\n".join(attempt.end.tail), file=sys.stderr)
                measured[word].append(_measured(attempt))
                print(_line(word, number, change, measured[word][-1]), flush=True)
    _report(measured["warm"], measured["cold"])
    return 0 if all(one.exit_code == 0 for found in measured.values() for one in found) else 1


def _measured(attempt: RealAttempt) -> Measured:
    steps_s = [value or 0.0 for value in attempt.column("timing_s/step")]
    tokens = [value or 0.0 for value in attempt.column("perf/total_num_tokens")]
    steady = slice(min(2, len(steps_s) - 1), None)
    return Measured(
        wall_s=attempt.wall_s,
        steps_s=sum(steps_s),
        tokens_per_s=sum(tokens[steady]) / max(sum(steps_s[steady]), 1e-9),
        rewards=tuple(value or 0.0 for value in attempt.column("critic/rewards/mean")),
        peak_frac=attempt.verdict.figures.peak_memory_frac or 0.0,
        exit_code=attempt.end.exit_code,
    )


def _line(word: str, number: int, candidate: Mapping[str, Value], one: Measured) -> str:
    changed = {key.rsplit(".", 1)[1]: value for key, value in candidate.items()}
    rewards = " ".join(f"{reward:.2f}" for reward in one.rewards)
    return (
        f"{word} {number:2d}  {one.wall_s:6.1f} s, {one.beyond_steps_s:6.1f} s beyond its steps, "
        f"{one.tokens_per_s:6.0f} tokens/s, peak {one.peak_frac:.0%}, reward {rewards}  {changed}"
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
            "peak_frac_difference_median": round(
                statistics.median(w.peak_frac - c.peak_frac for w, c in zip(warm, cold, strict=True)), 3
            ),
            "tokens_per_s_ratio_median": round(statistics.median(ratios), 3),
            "tokens_per_s_ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            "last_reward_difference_mean": round(statistics.mean(rewards), 4),
            "last_reward_difference_sd": round(statistics.stdev(rewards), 4) if len(rewards) > 1 else None,
        }
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
