"""`python -m benchmarks.explain [CASES.jsonl] [LOG]`: a table by kind, the wrong rows, then one JSON line.

CASES holds one report a line (`id`, `category`, `log_lines`; rows without lines are passed over), LOG is
a recorded healthy run to put the lines into. Both default to the tests' own copies. Reading speed is
measured on a log of 200 MB made from LOG and sample texts, and on one that is all tracebacks.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from autotune.judge.explain import explain

_DATA = Path(__file__).parents[2] / "tests" / "data" / "judge"
_ORDINARY = frozenset({"metrics_missing", "config_semantics", "throughput_network", "truncation_high"})
"""Reports about runs that went on: their lines are no failure, and None or `unknown` is right."""
_WRAPPERS = (
    "ray.exceptions.RayTaskError(RuntimeError): ray::TaskRunner.run() (pid=7, ip=10.0.0.1)",
    "RuntimeError: Engine core initialization failed. See root cause above.",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
)
_SPEED_BYTES = 200_000_000


def main() -> None:
    """Prints the tables and the JSON line."""
    arguments = sys.argv[1:]
    cases_file = Path(arguments[0]) if arguments else _DATA / "known_cases.jsonl"
    log_file = Path(arguments[1]) if len(arguments) > 1 else _DATA / "grpo_tiny_40_steps.console.log"
    cases = [json.loads(line) for line in cases_file.read_text().splitlines()]
    cases = [case for case in cases if case.get("log_lines")]
    log = log_file.read_text(errors="replace").splitlines()
    wrong = [row for case in cases for row in _wrong(case, log)]
    failures = [case for case in cases if case["category"] not in _ORDINARY]
    _table(failures, wrong)
    speed = {name: _speed(path, log) for name, path in (("ordinary", _ordinary), ("tracebacks", _tracebacks))}
    asked = len(_arrangements([], log)) * len(cases)
    answer = {
        "benchmark": "explain",
        "cases": len(cases),
        "failures": len(failures),
        "right_frac": round(1 - len(wrong) / asked, 4),
        "mb_per_s": speed,
        "wrong": wrong,
    }
    print(json.dumps(answer))


def _arrangements(lines: list[str], log: list[str]) -> dict[str, list[str]]:
    inside = max(index for index, line in enumerate(log) if "step:" in line) - 3
    ranks = [f"\x1b[36m(WorkerDict pid={rank})\x1b[0m {line}" for line in lines for rank in range(4)]
    return {
        "amid the run": [*log[:inside], *lines, *log[inside:]],
        "at its end": [*log[:inside], *lines],
        "wrappers around": [*log[:inside], *_WRAPPERS, *lines, *_WRAPPERS],
        "four ranks": [*log[:inside], *ranks],
    }


def _wrong(case: dict[str, Any], log: list[str]) -> list[dict[str, str]]:
    rows = []
    for name, lines in _arrangements(case["log_lines"], log).items():
        kind = explain(io.BytesIO("\n".join(lines).encode())).kind
        right = {case["category"]}
        if case["category"] in _ORDINARY:
            right = {None, "unknown", "ray_actor_death"} if name == "wrappers around" else {None, "unknown"}
        if kind not in right:
            rows.append({"id": case["id"], "kind": case["category"], "answer": str(kind), "where": name})
    return rows


def _table(failures: list[dict[str, Any]], wrong: list[dict[str, str]]) -> None:
    print(f"{'kind':<26}{'reports':>8}{'wrong':>8}")
    for kind, count in sorted(Counter(case["category"] for case in failures).items()):
        print(f"{kind:<26}{count:>8}{len({row['id'] for row in wrong if row['kind'] == kind}):>8}")
    for row in wrong:
        print(f"wrong: {row['id']} {row['kind']} answered {row['answer']} ({row['where']})")


def _ordinary(log: list[str]) -> bytes:
    """Sampled answers as verl prints them, with the run's own lines between."""
    chooser = random.Random(1)
    steps = log[next(index for index, line in enumerate(log) if "step:" in line) :]
    words = [
        "the",
        "answer",
        "is",
        "number",
        "of",
        "apples",
        "each",
        "total",
        "has",
        "left",
        "then",
        "add",
        "12",
        "7",
        "=",
        "####",
    ]
    lines = []
    for index in range(30_000):
        text = " ".join(chooser.choice(words) for _ in range(40))
        lines.append(
            steps[index // 50 % len(steps)] if index % 50 == 0 else f"(TaskRunner pid=7) [response] {text}"
        )
    return "\n".join([*lines, ""]).encode()


def _tracebacks(log: list[str]) -> bytes:
    """The worst case: every line must be looked at closely."""
    del log
    lines = []
    for index in range(4000):
        lines += ["Traceback (most recent call last):", f'  File "/a/verl/x.py", line {index}, in call']
        lines += ["    return run()", f"KeyError: 'key {index}'"]
    return "\n".join([*lines, ""]).encode()


def _speed(make: Any, log: list[str]) -> float:
    """MB a second over a file that repeats what `make` gives; a tenth of the size where it is slow."""
    part = make(log)
    size = _SPEED_BYTES if make is _ordinary else _SPEED_BYTES // 40
    with tempfile.TemporaryFile() as file:
        while file.tell() < size:
            file.write(part)
        megabytes = file.tell() / 1e6
        file.seek(0)
        started = time.perf_counter()
        explain(file)
        return round(megabytes / (time.perf_counter() - started), 2)


if __name__ == "__main__":
    main()
