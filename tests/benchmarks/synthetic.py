"""A SYNTHETIC landscape, for tests of the benchmark alone: no machine ever ran it, and it says so in every line."""

from __future__ import annotations

import json
import random
from pathlib import Path

MICRO, DYNAMIC, TOKENS, SEQS = "actor.micro", "actor.use_dynamic", "actor.tokens", "rollout.seqs"


def lines(repeats: int = 3, seed: int = 0) -> list[str]:
    """Runs of a 2 x 4 x 3 space with a condition; the largest micro batch runs out of memory."""
    chance = random.Random(seed)
    made = []
    for dynamic in (False, True):
        for size in (2, 4, 8, 16):
            for seqs in (16, 64, 256):
                knob = {TOKENS: 64 * size} if dynamic else {MICRO: size}
                params = {DYNAMIC: dynamic, **knob, SEQS: seqs}
                fails = not dynamic and size == 16
                speed = 100.0 * (1 + 0.1 * size + 0.4 * dynamic + 0.001 * seqs)
                made += [_line(params, speed, fails, chance) for _ in range(repeats)]
    return made


def _line(params, speed: float, fails: bool, chance: random.Random) -> str:
    step_s = [] if fails else [1000.0 / speed * chance.gauss(1.0, 0.01) for _ in range(6)]
    return json.dumps(
        {
            "job": "synthetic",
            "synthetic": True,
            "params": params,
            "outcome": "failed" if fails else "completed",
            "kind": "oom_gpu_actor_update" if fails else None,
            "phase": "update_actor" if fails else None,
            "step_s": step_s,
            "tokens": [1000.0] * len(step_s),
            "reward": [0.5] * len(step_s),
            "kl": [0.01] * len(step_s),
            "peak_gb": {"update_actor": 0.2},
            "start_s": 60.0,
            "cold_key": f"seqs={params[SEQS]}",
        }
    )


def write(folder: Path, name: str = "synthetic.jsonl") -> Path:
    """The landscape as a file."""
    path = folder / name
    path.write_text('{"synthetic": true, "note": "made up for a test"}\n' + "\n".join(lines()) + "\n")
    return path
