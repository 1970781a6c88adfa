"""`python -m benchmarks.honesty.record NAME=GROUP:metrics.jsonl ...`: real trials as the replay reads them.

Kept of each step: seconds, all tokens, mean prompt and response length. GROUP names runs of one
configuration: their levels are what the noise between runs is estimated from.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("recorded_runs.json")
KEYS = ("perf/time_per_step", "perf/total_num_tokens", "prompt_length/mean", "response_length/mean")


def main(arguments: list[str]) -> int:
    """Writes the recording; 2 where nothing was named."""
    if not arguments:
        print(__doc__)
        return 2
    runs = []
    for argument in arguments:
        name, _, rest = argument.partition("=")
        group, _, path = rest.partition(":")
        runs.append({"name": name, "group": group, "steps": _steps(Path(path))})
    TARGET.write_text(_text(runs), encoding="ascii")
    print(f"{TARGET.name}: {len(runs)} runs, {sum(len(run['steps']) for run in runs)} steps")
    return 0


def _steps(path: Path) -> list[list[float]]:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [
        [round(float(record["data"][key]), 4) for key in KEYS] for record in records if record["step"] > 0
    ]


def _text(runs: list[dict[str, Any]]) -> str:
    """One line a run, so that a changed recording shows in a diff."""
    head = {
        "what": "real verl 0.9.1 trials of the tiny CPU job (GRPO, two-layer Qwen2, vLLM's CPU build, two cores)",
        "step": list(KEYS),
    }
    lines = ",\n".join("  " + json.dumps(run, separators=(",", ":")) for run in runs)
    body = json.dumps(head, indent=1)[:-2]
    return f'{body},\n "runs": [\n{lines}\n ]\n}}\n'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
