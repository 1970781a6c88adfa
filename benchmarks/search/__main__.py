"""`python -m benchmarks.search [LANDSCAPE]`: GPU seconds until within 5 % of the best, then one JSON line.

Every search pays start-up for every trial, by the recorded medians. `equal`: all of them a cold one. `warm`: ours
opens a session for a cold key, and a further candidate of it pays what one paid in the recording, with or without
a new rollout engine; the peers, which have none, pay as before.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.landscape.recording import Landscape, Start, read
from benchmarks.search import ours, ray_tune, searches
from benchmarks.search.drive import Driver, Search
from benchmarks.search.track import LaunchCost, Track, score

_RECORDED = Path(__file__).parents[1] / "landscape" / "tiny_cpu.jsonl.xz"
RANDOM = "random"
PEERS: dict[str, tuple[Search, tuple[str, ...]]] = {
    RANDOM: (searches.random_search, ()),
    "optuna TPE": (searches.optuna_tpe, ()),
    "optuna GP": (searches.optuna_gp, ("scipy", "torch")),
    "ray tune ASHA + OptunaSearch": (ray_tune.asha, ("ray",)),
    "ray tune HyperBand": (ray_tune.hyperband, ("ray",)),
    "sequential doubling": (searches.sequential_doubling, ()),
}
_NEVER_TRIED = {"ray tune BOHB": ("hpbandster", "ConfigSpace")}


@dataclass(frozen=True)
class Row:
    """One search over all seeds."""

    name: str
    tracks: tuple[Track, ...]
    score: float

    @property
    def median_s(self) -> float:
        """GPU seconds; infinite where more than half of the seeds never came close."""
        return statistics.median(track.reached_s for track in self.tracks)

    def quartile_s(self, share: float) -> float:
        """The seed at this share of the ranks."""
        ranked = sorted(track.reached_s for track in self.tracks)
        return ranked[min(int(share * len(ranked)), len(ranked) - 1)]


def main(arguments: list[str]) -> int:
    """Prints a table for each job, then one JSON line; 2 where the landscape was not recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("landscape", type=Path, nargs="?", default=_RECORDED)
    parser.add_argument("--jobs", nargs="+", help="jobs of the landscape; all by default")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most-trials", type=int, default=200)
    options = parser.parse_args(arguments)
    if not options.landscape.is_file():
        print(f"no recorded landscape at {options.landscape}", file=sys.stderr)
        return 2
    landscapes = read(options.landscape)
    made_up = [job for job, landscape in landscapes.items() if landscape.is_synthetic]
    if made_up:
        print(
            f"{options.landscape} is synthetic ({', '.join(made_up)}): it says nothing of searches",
            file=sys.stderr,
        )
        return 2
    results = {}
    for job in options.jobs or landscapes:
        rows = compare(landscapes[job], options.seeds, options.most_trials)
        print_table(landscapes[job], rows)
        results[job] = {row.name: _summary(row) for row in rows} | {"ratios": ratios(rows)}
    for name, packages in _NEVER_TRIED.items():
        print(f"{name}: not run, it needs {' and '.join(packages)}")
    print(json.dumps({"benchmark": "search", "seeds": options.seeds, "jobs": results}))
    return 0


def compare(landscape: Landscape, seeds: int, most_trials: int) -> list[Row]:
    """All searches over one landscape, random search first."""
    baseline = _peer(landscape, searches.random_search, seeds, lambda track: False)
    until_s = statistics.median(track.reached_s for track in baseline)

    def is_over(track: Track) -> bool:
        seen = track.reached_s < float("inf") and track.spent_s >= until_s
        return seen or track.trials >= most_trials or track.spent_s >= 10.0 * until_s

    rows = [Row(RANDOM, tuple(baseline), 0.0)]
    for name, (search, needed) in PEERS.items():
        absent = [package for package in needed if searches.missing(package)]
        if absent:
            print(f"{name}: not run, {' and '.join(absent)} not installed")
        elif name != RANDOM:
            tracks = _peer(landscape, search, seeds, is_over)
            rows.append(Row(name, tuple(tracks), score(tracks, baseline, until_s)))
    for name, warm in (("autotune, equal launch costs", False), ("autotune, warm sessions", True)):
        tracks = []
        for seed in range(seeds):
            tracks.append(Track(landscape, random.Random(seed), LaunchCost(landscape, warm)))
            ours.climb(tracks[-1], is_over, seed, most_trials)
        rows.append(Row(name, tuple(tracks), score(tracks, baseline, until_s)))
    return rows


def _peer(landscape: Landscape, search: Search, seeds: int, is_over: Callable[[Track], bool]) -> list[Track]:
    tracks = []
    for seed in range(seeds):
        tracks.append(Track(landscape, random.Random(seed), LaunchCost(landscape)))
        search(Driver(tracks[-1], is_over), landscape, seed)
    return tracks


def print_table(landscape: Landscape, rows: Sequence[Row]) -> None:
    """One line for each search."""
    failed = sum(c.tokens_per_s is None for c in landscape.configurations)
    print(
        f"\n{landscape.job}: {len(landscape.configurations)} candidates, {failed} of them fail, best "
        f"{landscape.best:.0f} tokens/s, own {landscape.start.tokens_per_s or 0.0:.0f}; start-up "
        + ", ".join(f"{start.name.lower()} {landscape.start_s(start):.1f} s" for start in Start)
    )
    print(
        f"{'search':32s} {'median s':>9s} {'quartiles':>17s} {'reached':>8s} {'trials':>7s} {'exact':>6s} {'score':>6s}"
    )
    for row in rows:
        reached = sum(track.reached_s < float("inf") for track in row.tracks) / len(row.tracks)
        trials = statistics.median(track.trials for track in row.tracks)
        exact = sum(track.exact for track in row.tracks) / max(sum(track.trials for track in row.tracks), 1)
        quartiles = f"{row.quartile_s(0.25):.0f}..{row.quartile_s(0.75):.0f}"
        print(
            f"{row.name:32s} {row.median_s:9.0f} {quartiles:>17s} {reached:8.0%} {trials:7.0f} {exact:6.0%}"
            f" {row.score:6.2f}"
        )
    for name, ratio in ratios(rows).items():
        print(f"{name}: {ratio:.2f}")


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Our median over the best peer's; infinite peers count as no peer."""
    own = {row.name: row.median_s for row in rows if row.name.startswith("autotune")}
    peer_s = min(row.median_s for row in rows if row.name not in own)
    return {f"{name} / best peer": round(median_s / peer_s, 3) for name, median_s in own.items()}


def _summary(row: Row) -> dict[str, float | None]:
    values = {
        "median_s": row.median_s,
        "first_quartile_s": row.quartile_s(0.25),
        "third_quartile_s": row.quartile_s(0.75),
        "reached": sum(track.reached_s < float("inf") for track in row.tracks) / len(row.tracks),
        "score": row.score,
    }
    return {name: value if value < float("inf") else None for name, value in values.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
