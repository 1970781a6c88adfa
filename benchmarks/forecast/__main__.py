"""`python -m benchmarks.forecast`: recall of out-of-memory, false rejections, distance to boundaries."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from autotune.forecast.correction import Correction
from autotune.forecast.gpu_spec import parse_gpu_spec
from autotune.forecast.memory import MemoryForecast, forecast
from autotune.forecast.rejection import judge
from benchmarks.first_feasible.record import PEAKS
from benchmarks.forecast.learning import Learning, learning
from benchmarks.forecast.rows import BATCH_KEYS, UNSTATED_GPU, Row, Skipped, boundary_rows, known_rows

_CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "verl_known_configs.jsonl"
_BOUNDARIES = Path(__file__).with_name("oom_boundaries.yaml")


def main(arguments: list[str]) -> int:
    """Prints the table, then one JSON line; 0 where both targets are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecast", description=__doc__)
    parser.add_argument("--configs", type=Path, default=_CONFIGS, help="known configurations, JSON lines")
    parser.add_argument("--boundaries", type=Path, default=_BOUNDARIES, help="recorded searches, YAML")
    parser.add_argument("--peaks", type=Path, default=PEAKS, help="recorded peaks of the tiny job, JSON")
    parser.add_argument("--unstated-gpu", default=UNSTATED_GPU, help="card of rows that do not name theirs")
    parser.add_argument("--all", action="store_true", help="every row, not only the wrong ones")
    options = parser.parse_args(arguments)
    rows, skipped = [], []
    searches = list(boundary_rows(options.configs, options.boundaries))
    searched = {Path(search[0].name.split(" ")[0]).name for search in searches}
    for row in known_rows(options.configs, options.unstated_gpu):
        if isinstance(row, Skipped):
            skipped.append(row)
        elif Path(row.name).stem not in searched:  # its own size is one of the search's
            rows.append(row)
    judged = [(row, _forecast(row)) for row in [*rows, *(row for search in searches for row in search)]]
    print(_HEADER)
    wrong = [(row, made) for row, made in judged if made.fits != row.ran]
    for row, made in judged if options.all else wrong:
        print(_line(row, made))
    for one in skipped:
        print(f"skipped {one.name}: {one.why}")
    distances = [_boundary(search) for search in searches]
    for text, _distance in distances:
        print(text)
    taught = learning(options.peaks)
    print(_learning(taught))
    ran = [(row, made) for row, made in judged if row.ran]
    oom = [(row, made) for row, made in judged if not row.ran]
    started = time.perf_counter()
    _forecast(judged[0][0])
    seconds_each = time.perf_counter() - started
    recall = sum(not made.fits for _row, made in oom) / len(oom)
    false_rejections = sum(not made.fits for _row, made in ran) / len(ran)
    rejected = {
        ran: sum(_is_rejected(made) for row, made in judged if row.ran is ran) for ran in (True, False)
    }
    by_card = {card: _false_rejections(ran, card) for card in _OTHER_CARDS}
    print(
        f"false rejections, bare forecast against the device: {false_rejections:.1%} with unnamed cards taken as "
        f"{options.unstated_gpu}, " + ", ".join(f"{frac:.1%} as {card}" for card, frac in by_card.items())
    )
    print(
        f"not launched by the controller, before any trial has corrected it: {rejected[True]} of {len(ran)} "
        f"that ran, {rejected[False]} of {len(oom)} that ran out of memory"
    )
    result = {
        "benchmark": "forecast",
        "rows": len(judged),
        "skipped": len(skipped),
        "oom_recall": round(recall, 4),
        "false_rejections": round(false_rejections, 4),
        "false_rejections_by_unnamed_card": {card: round(frac, 4) for card, frac in by_card.items()},
        "false_rejections_by_controller": round(rejected[True] / len(ran), 4),
        "oom_recall_by_controller": round(rejected[False] / len(oom), 4),
        "boundary_distance": [round(distance, 4) for _text, distance in distances],
        "learning_error_ratio": round(taught.median_ratio, 3),
        "learning_halved_share": round(taught.halved_share, 3),
        "wrong": [row.name for row, _made in wrong],
        "seconds_each": round(seconds_each, 5),
    }
    print(json.dumps(result))
    return 0 if recall >= 0.95 and false_rejections <= 0.05 else 1


_OTHER_CARDS = ("H100-80GB", "H200-141GB")
"""The commonest, and the largest of NVIDIA that verl's documentation reports runs on (docs/advance/ppo_lora.rst)."""
_HEADER = f"{'row':62s} {'ran':>4s} {'fits':>5s} {'peak':>6s} {'of':>6s}  phase: largest term"


def _forecast(row: Row) -> MemoryForecast:
    return forecast(row.flat, row.model, row.gpu_memory_gb, row.gpus)


def _false_rejections(ran: list[tuple[Row, MemoryForecast]], card: str) -> float:
    """Share of the rows that ran which do not fit, where a row that does not name its card had this one."""
    memory_gb = parse_gpu_spec(card).memory_gb
    made = [
        one if row.card_is_named else _forecast(replace(row, gpu_memory_gb=memory_gb)) for row, one in ran
    ]
    return sum(not one.fits for one in made) / len(made)


def _is_rejected(made: MemoryForecast) -> bool:
    return judge(made, Correction(made.capacity_gb)).is_hopeless()


def _line(row: Row, made: MemoryForecast) -> str:
    worst = made.worst
    verdict = "yes" if made.fits else "no"
    where = f"{worst.phase}: {worst.largest_term} {worst.terms[worst.largest_term]:.1f}"
    if not made.rollout.can_serve:
        where = f"rollout_start: cache {made.rollout.cache_gb:.1f} GB"
    ran = "yes" if row.ran else "OOM"
    return f"{row.name[:62]:62s} {ran:>4s} {verdict:>5s} {made.peak_gb:6.1f} {made.capacity_gb:6.1f}  {where}"


def _learning(taught: Learning) -> str:
    return (
        f"learning: three of {taught.trials} tiny trials take the error on the others from "
        f"{taught.raw_gb:.3f} to {taught.corrected_gb:.3f} GB (median ratio {taught.median_ratio:.2f}; halved "
        f"or better for {taught.halved_share:.0%} of the {taught.choices} choices of three)"
    )


def _boundary(search: list[Row]) -> tuple[str, float]:
    """The largest size that the forecast lets through against the one between recorded run and OOM."""
    first = search[0]
    recorded = (
        max(row.samples_per_gpu or 0 for row in search if row.ran)
        + min(row.samples_per_gpu or 0 for row in search if not row.ran)
    ) / 2
    predicted = _largest(first)
    distance = (predicted + 0.5) / recorded - 1.0
    name = first.name.split(" ")[0]
    return f"boundary {name}: recorded {recorded:g}, forecast {predicted + 0.5:g} ({distance:+.1%})", distance


def _largest(row: Row) -> int:
    samples = 0
    while samples < 4096:
        flat = {**row.flat, **dict.fromkeys(BATCH_KEYS, (samples + 1) * row.gpus)}
        if not forecast(flat, row.model, row.gpu_memory_gb, row.gpus).fits:
            break
        samples += 1
    return samples


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
