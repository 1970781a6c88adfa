"""`python -m benchmarks.load_monitor`: milliseconds a step that the load monitor adds, by batch size.

The monitor's own code over batches like verl's: real torch tensors of rewards and nested ids, in memory.
Rewards have the tokens of `--response-tokens`. What it adds is set against the time that one step of this
batch may take at least for the monitor to stay under 1 %; `make bench-extensions` reads the cost of real
steps from the monitor's own lines.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from autotune.verl_plugin.load_monitor import LoadMonitor

_SAMPLES = (64, 1024, 8192)
_RANKS = 8
_GROUP = 8
_MICRO_BATCH = 8
_SHARE = 0.01


def main(arguments: list[str]) -> int:
    """Prints the table, then one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_monitor", description=__doc__)
    parser.add_argument("--response-tokens", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=7, help="the fastest one counts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"{'samples':>8s} {'trainer':>11s} {'one worker':>11s} {'under 1 % from':>15s}")
    found = {}
    for samples in _SAMPLES:
        trainer_s, worker_s = _cost_s(samples, options.response_tokens, options.repeats)
        least_s = (trainer_s + worker_s) / _SHARE
        print(f"{samples:8d} {1e3 * trainer_s:8.2f} ms {1e3 * worker_s:8.2f} ms {least_s:11.2f} s/step")
        found[samples] = {"trainer_s": round(trainer_s, 6), "worker_s": round(worker_s, 6)}
    print(json.dumps({"benchmark": "load_monitor", "ranks": _RANKS, "samples": found}))
    return 0


def _cost_s(samples: int, response_tokens: int, repeats: int) -> tuple[float, float]:
    """(the trainer's, one worker's) seconds a step: two log-prob passes and an update a worker."""
    chance = random.Random(0)
    lengths = [chance.randint(16, response_tokens) for _ in range(samples)]
    tags = [{"prompt_len": 200, "response_len": length, "seq_len": 200 + length} for length in lengths]
    batch = SimpleNamespace(tags=tags)
    trainer = SimpleNamespace(actor_rollout_wg=SimpleNamespace(_dispatch_info={"actor": range(_RANKS)}))
    data = SimpleNamespace(
        batch={"token_level_rewards": torch.rand(samples, response_tokens)},
        non_tensor_batch={"uid": [str(index // _GROUP) for index in range(samples)]},
    )
    micro_batches = _micro_batches(lengths[: samples // _RANKS])
    with tempfile.TemporaryDirectory() as folder:
        monitor = LoadMonitor(str(Path(folder) / "rank_load.jsonl"))
        balance = monitor.around_balance(lambda trainer, batch: batch)
        advantage = monitor.around_advantage(lambda data: data)
        metrics = monitor.around_metrics(lambda *args, **kwargs: None)
        passes = monitor.around_micro_batches(lambda data, dp_group: (micro_batches, None))

        def trainers_step() -> None:
            balance(trainer, batch)
            advantage(data)
            metrics(None, batch, {}, {"step": 1.0}, global_steps=1)

        def workers_step() -> None:
            for _ in range(3):
                passes({})

        return _fastest_s(trainers_step, repeats), _fastest_s(workers_step, repeats)


def _micro_batches(lengths: list[int]) -> list[dict[str, torch.Tensor]]:
    made = []
    for start in range(0, len(lengths), _MICRO_BATCH):
        ids = [torch.zeros(length, dtype=torch.int64) for length in lengths[start : start + _MICRO_BATCH]]
        made.append({"input_ids": torch.nested.as_nested_tensor(ids, layout=torch.jagged)})
    return made


def _fastest_s(work: Any, repeats: int) -> float:
    taken_s = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        work()
        taken_s.append(time.perf_counter() - start_s)
    return min(taken_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
