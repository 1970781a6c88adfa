"""Files of the load monitor as two made-up runs on four ranks would leave them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from autotune.job.paths import AttemptPaths
from autotune.report.findings.load import LoadFinding, load_finding
from autotune.report.findings.stages import FASTEST, SURVIVOR
from autotune.store.rank_load import read_rank_load

RANKS = 4


def write_load(folder: Path, *, steps: int = 12, micro_batches: int = 8, ranks: int = RANKS) -> None:
    """One attempt's file; arrival is uneven, verl's balancing leaves one per cent."""
    made = random.Random(micro_batches)
    lines: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        tokens = [made.randint(9900, 10100) for _ in range(ranks)]
        lines += [one_pass(rank, tokens[rank], micro_batches + rank % 2) for rank in range(ranks)]
        lengths = [(made.randint(40, 200), int(made.lognormvariate(5.5, 0.6))) for _ in range(32)]
        lines.append(
            {
                "step": step,
                "step_s": 8.0,
                "tokens_before": [made.randint(7000, 13000) for _ in range(ranks)],
                "tokens": tokens,
                "samples": [32] * ranks,
                "lengths": lengths,
                "groups": 32,
                "flat_groups": 3,
                "data_wait_s": 0.01,
                "cost_s": 0.004,
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    AttemptPaths(folder).rank_load.write_text(text, encoding="utf-8")


def made_loads(folder: Path, **options: int) -> tuple[LoadFinding, ...]:
    """The survivor's load and that of a fastest run with larger micro batches."""
    loads = []
    for name, trial, micro_batches in ((SURVIVOR, "speed/0", 8), (FASTEST, "speed/3", 4)):
        write_load(folder / name, micro_batches=micro_batches, **options)
        load = read_rank_load(AttemptPaths(folder / name))
        assert load is not None
        loads.append(load_finding(name, trial, load))
    return tuple(loads)


def one_pass(rank: int, tokens: int, micro_batches: int) -> dict[str, object]:
    """An update's pass of one rank."""
    return {
        "pass": "update",
        "rank": rank,
        "process": rank,
        "micro_batches": micro_batches,
        "samples": 32,
        "tokens": tokens,
        "largest_tokens": tokens // micro_batches,
        "padded_tokens": 2 * tokens,
        "cost_s": 0.001,
    }
