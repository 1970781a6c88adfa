"""What each rank gets to do in a step: JSON lines in one file, and three figures among verl's own metrics.

The trainer's process writes one line a step: tokens and samples of each data-parallel rank, what they
would have been in the order of arrival (before verl's own balancing), a bounded sample of prompt and
response lengths, groups whose responses all earned the same, and the time spent waiting for data. Each
training worker writes one line a pass: micro batches, their tokens, and their size once padded. verl
0.9.1 logs the smallest and largest rank only, and no micro batches (trainer/ppo/v1/trainer_base.py:1608,
workers/engine/utils.py:88). V1 trainer only; on others nothing is written.

Nothing here may ever stop a training: what goes wrong inside the monitor is swallowed. Every line says
what the monitor itself has cost (`cost_s`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

TRAINER_MODULE = "verl.trainer.ppo.v1.trainer_base"
WORKER_MODULE = "verl.workers.engine.utils"

FLAT_GROUPS = "autotune/groups_without_variance_frac"
DATA_WAIT_S = "autotune/data_wait_s"
COST_S = "autotune/monitor_s"

LENGTHS_KEPT = 256
"""Prompt and response lengths of one step, evenly spaced over the batch."""
_SAME = 1e-9
_PADDING_UID = "pad"
"""verl fills a batch up with samples of such a uid (trainer/ppo/padding_utils.py:179)."""


_turned_on: list[LoadMonitor] = []
"""That of this process: none or one."""


def turn_on(path: str) -> None:
    """Watch this process, be it the trainer's or a worker's; other processes never import the modules."""
    monitor = LoadMonitor(path)
    _turned_on.append(monitor)
    after_import(TRAINER_MODULE, monitor.watch_trainer)
    after_import(WORKER_MODULE, monitor.watch_worker)


def write_to(path: str) -> None:
    """Further lines of this process go to `path`: a warm session's next candidate has its own file."""
    for monitor in _turned_on:
        monitor.path = path
        monitor.step = StepLoad()


@dataclass
class StepLoad:
    """What is known of the step so far; a step may balance several batches."""

    before: list[int] = field(default_factory=list)
    """Tokens of each rank in the order of arrival."""
    tokens: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)
    groups: int = 0
    flat_groups: int = 0
    data_wait_s: float = 0.0


class LoadMonitor:
    """Collects one process's load and appends it to `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.step = StepLoad()
        self._cost_s = 0.0

    def watch_trainer(self, module: Any) -> None:
        """Wrap what the trainer does once a step."""
        with suppress(AttributeError):
            trainer = module.PPOTrainer
            trainer._next_train_batch = self.around_fetch(trainer._next_train_batch)
            trainer._balance_batch = self.around_balance(trainer._balance_batch)
            trainer._compute_metrics = self.around_metrics(trainer._compute_metrics)
            name = "compute_advantage_for_multi_trajectories"
            setattr(module, name, self.around_advantage(getattr(module, name)))

    def watch_worker(self, module: Any) -> None:
        """Wrap how a worker cuts its share; engines import the name later than this."""
        with suppress(AttributeError):
            module.prepare_micro_batches = self.around_micro_batches(module.prepare_micro_batches)

    def around_fetch(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        """Times how long the trainer waits for its data loader."""

        @wraps(fetch)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start_s = time.perf_counter()
            try:
                return fetch(*args, **kwargs)
            finally:
                self.step.data_wait_s += time.perf_counter() - start_s

        return timed

    def around_balance(self, balance: Callable[..., Any]) -> Callable[..., Any]:
        """Notes each rank's share before and after verl's own balancing."""

        @wraps(balance)
        def noted(trainer: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
            arrived = list(batch.tags)
            balanced = balance(trainer, batch, *args, **kwargs)
            with self._counted():
                self._note_shares(arrived, balanced.tags, _ranks(trainer))
            return balanced

        return noted

    def around_advantage(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Counts the groups that give no gradient."""

        @wraps(compute)
        def counted(data: Any, *args: Any, **kwargs: Any) -> Any:
            with self._counted():
                rewards = data.batch["token_level_rewards"].sum(-1).tolist()
                groups, flat = count_flat_groups(data.non_tensor_batch["uid"], rewards)
                self.step.groups += groups
                self.step.flat_groups += flat
            return compute(data, *args, **kwargs)

        return counted

    def around_metrics(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Writes the step's line, once verl has its own metrics of the step."""

        @wraps(compute)
        def written(
            trainer: Any, batch: Any, metrics: dict[str, Any], timing_raw: Any, *args: Any, **kwargs: Any
        ) -> Any:
            result = compute(trainer, batch, metrics, timing_raw, *args, **kwargs)
            with self._counted():
                step = kwargs.get("global_steps", args[0] if args else 0)
                metrics.update(self._metrics())
                self._write_step(int(step), timing_raw.get("step"))
            return result

        return written

    def around_micro_batches(self, prepare: Callable[..., Any]) -> Callable[..., Any]:
        """Writes what one pass of this worker is cut into."""

        @wraps(prepare)
        def written(data: Any, dp_group: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = prepare(data, dp_group, *args, **kwargs)
            with self._counted():
                lengths = [_lengths(micro_batch) for micro_batch in result[0]]
                # verl names the samples of an update, and of an update only (trainer_base.py:1855).
                work = "update" if "global_batch_size" in data.keys() else "log_prob"  # noqa: SIM118
                self._append({"pass": work, **_who(dp_group), **describe(lengths)})
            return result

        return written

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Runs a part of the monitor: counts its time, swallows its errors."""
        start_s = time.perf_counter()
        # A monitor that ends a training of days for a missing attribute is worse than none.
        with suppress(Exception):
            yield
        self._cost_s += time.perf_counter() - start_s

    def _note_shares(self, arrived: Sequence[Any], balanced: Sequence[Any], ranks: int) -> None:
        step = self.step
        filled_up = [tag["seq_len"] for tag in balanced if tag.get("is_padding")]
        own = [tag["seq_len"] for tag in arrived if not tag.get("is_padding")]
        step.before = _added(step.before, rank_totals([*own, *filled_up], ranks))
        step.tokens = _added(step.tokens, rank_totals([tag["seq_len"] for tag in balanced], ranks))
        step.samples = _added(step.samples, rank_totals([1] * len(balanced), ranks))
        pairs = [(tag["prompt_len"], tag["response_len"]) for tag in balanced if not tag.get("is_padding")]
        step.lengths = evenly_spaced([*step.lengths, *pairs], LENGTHS_KEPT)

    def _metrics(self) -> dict[str, float]:
        step = self.step
        share = {FLAT_GROUPS: step.flat_groups / step.groups} if step.groups else {}
        return {**share, DATA_WAIT_S: step.data_wait_s, COST_S: self._cost_s}

    def _write_step(self, number: int, step_s: float | None) -> None:
        step, self.step = self.step, StepLoad()
        self._append(
            {
                "step": number,
                "step_s": step_s,
                "tokens_before": step.before,
                "tokens": step.tokens,
                "samples": step.samples,
                "lengths": step.lengths,
                "groups": step.groups,
                "flat_groups": step.flat_groups,
                "data_wait_s": round(step.data_wait_s, 6),
            }
        )

    def _append(self, values: dict[str, Any]) -> None:
        cost_s, self._cost_s = self._cost_s, 0.0
        line = json.dumps({**values, "cost_s": round(cost_s, 6)}, separators=(",", ":"))
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")  # one write: the lines of several processes never mix


def rank_totals(values: Sequence[int], ranks: int) -> list[int]:
    """Sums over equal shares, in order: how verl hands a batch to its ranks."""
    size = len(values) // ranks
    return [sum(values[rank * size : (rank + 1) * size]) for rank in range(ranks)]


def evenly_spaced(values: list[Any], count: int) -> list[Any]:
    """At most `count` of the values, from the first on."""
    step = max(-(-len(values) // count), 1)
    return values[::step]


def count_flat_groups(uids: Sequence[Any], rewards: Sequence[float]) -> tuple[int, int]:
    """Groups of several responses, and those of them whose responses all earned the same."""
    bounds: dict[str, tuple[float, float, int]] = {}
    for uid, reward in zip(map(str, uids), rewards, strict=True):
        if not uid.startswith(_PADDING_UID):
            low, high, count = bounds.get(uid, (reward, reward, 0))
            bounds[uid] = (min(low, reward), max(high, reward), count + 1)
    groups = [(low, high) for low, high, count in bounds.values() if count > 1]
    return len(groups), sum(high - low <= _SAME for low, high in groups)


def describe(lengths: Sequence[Sequence[int]]) -> dict[str, int]:
    """A worker's pass in figures, from the sequence lengths of each of its micro batches."""
    totals = [sum(batch) for batch in lengths]
    return {
        "micro_batches": len(lengths),
        "samples": sum(map(len, lengths)),
        "tokens": sum(totals),
        "largest_tokens": max(totals, default=0),
        "padded_tokens": sum(max(batch, default=0) * len(batch) for batch in lengths),
    }


def _added(one: list[int], other: list[int]) -> list[int]:
    return [left + right for left, right in zip(one, other, strict=True)] if one else other


def _ranks(trainer: Any) -> int:
    """Data-parallel ranks, from the mapping that verl's balancing has just asked for."""
    return int(max(trainer.actor_rollout_wg._dispatch_info["actor"])) + 1


def _lengths(micro_batch: Any) -> list[int]:
    ids = micro_batch["input_ids"]
    if ids.is_nested:
        return [int(length) for length in ids.offsets().diff().tolist()]
    return [int(length) for length in micro_batch["attention_mask"].sum(-1).tolist()]


def _who(dp_group: Any) -> dict[str, int]:
    """The data-parallel rank, and the process, since sequence-parallel ones share a rank."""
    process = int(os.environ.get("RANK", "0"))
    if dp_group is None:
        return {"rank": 0, "process": process}
    import torch.distributed

    return {"rank": torch.distributed.get_rank(dp_group), "process": process}
