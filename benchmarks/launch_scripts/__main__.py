"""Compares what is read from verl's example scripts with the known configurations that were taken from them.

    python -m benchmarks.launch_scripts ROWS.jsonl REPOSITORY [--differences]

ROWS names each script with its commit; REPOSITORY is a clone of verl (bare or not) that has the
commit. Prints a table, then one JSON line. The scripts are read from git, nothing is executed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from autotune.errors import InputError
from autotune.verl_config.launch_script.reading import LaunchScript, parse_launch_script

_SHELL_TEXT = re.compile(r"\$\w|\$[{(]")


@dataclass(frozen=True)
class Difference:
    """One key on which the row and the script as read do not agree."""

    key: str
    row: Any
    read: Any
    kind: str
    """`row holds shell text`, `row left it out` (words of a variable or an array), or `other`."""


def main() -> None:
    """Print the table, the differences if asked for, and the JSON line."""
    options = _options()
    rows = [json.loads(line) for line in options.rows.read_text().splitlines() if line.strip()]
    kinds: Counter[str] = Counter()
    exact = seconds = 0.0
    named: list[tuple[str, list[Difference]]] = []
    for row in rows:
        text = _show(options.repository, row["commit"], row["source"])
        started = time.perf_counter()
        script = parse_launch_script(text, row["source"])
        seconds += time.perf_counter() - started
        differences = list(_differences(row, script))
        exact += not differences
        kinds.update({difference.kind for difference in differences})
        if differences:
            named.append((row["source"], differences))
    others = _others(options.repository, rows)
    _print(rows, int(exact), kinds, others, seconds)
    if options.differences:
        _print_differences(named)
    summary = {
        "benchmark": "launch_scripts",
        "rows": len(rows),
        "exact": int(exact),
        "different": len(rows) - int(exact),
        "different_by_kind": dict(kinds),
        "other_scripts": len(others),
        "other_read": sum(outcome == "read" for outcome in others.values()),
        "other_crashed": sum(outcome.startswith("crashed") for outcome in others.values()),
        "ms_per_script": round(1000 * seconds / max(len(rows), 1), 1),
    }
    print(json.dumps(summary))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--differences", action="store_true", help="list every difference")
    return parser.parse_args()


def _differences(row: dict[str, Any], script: LaunchScript) -> Iterator[Difference]:
    """A key that is unresolved agrees with a row that holds the same shell text."""
    read = {key.lstrip("+"): value for key, value in script.overrides.items()}
    unresolved = {one.key.lstrip("+"): one.text.partition("=")[2] for one in script.unresolved if one.key}
    for key in sorted({*read, *unresolved, *row["overrides"]}):
        in_row = row["overrides"].get(key, "(absent)")
        found = read.get(key, unresolved.get(key, "(absent)"))
        if found not in (in_row, _as_hydra_reads(in_row)):
            yield Difference(key, in_row, found, _kind(in_row))


def _kind(in_row: Any) -> str:
    if isinstance(in_row, str) and _SHELL_TEXT.search(in_row):
        return "row holds shell text"
    return "row left it out" if in_row == "(absent)" else "other"


def _as_hydra_reads(value: Any) -> Any:
    """The rows keep lists and quoted texts as text; a script's are what Hydra's grammar makes of them."""
    if not isinstance(value, str):
        return value
    try:
        return OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:
        return value


def _others(repository: Path, rows: list[dict[str, Any]]) -> dict[str, str]:
    """What becomes of every other shell script at the rows' commit: read, no training, crashed."""
    commit, known = rows[0]["commit"], {row["source"] for row in rows}
    outcomes: dict[str, str] = {}
    for name in _git(repository, "ls-tree", "-r", "--name-only", commit).splitlines():
        if not name.endswith(".sh") or name in known:
            continue
        try:
            parse_launch_script(_show(repository, commit, name), name)
            outcomes[name] = "read"
        except InputError:
            outcomes[name] = "no training in it"
        except Exception as error:
            outcomes[name] = f"crashed: {error!r}"
    return outcomes


def _show(repository: Path, commit: str, path: str) -> str:
    return _git(repository, "show", f"{commit}:{path}")


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True)
    return done.stdout.decode(errors="replace")


def _print(
    rows: list[dict[str, Any]], exact: int, kinds: Counter[str], others: dict[str, str], seconds: float
) -> None:
    print(f"{'rows':<44}{len(rows):>6}")
    print(f"{'  exact':<44}{exact:>6}")
    print(f"{'  different':<44}{len(rows) - exact:>6}")
    for kind, count in kinds.most_common():
        print(f"{'    of them with: ' + kind:<44}{count:>6}")
    print(f"{'other scripts of the repository':<44}{len(others):>6}")
    for outcome, count in Counter(outcome.partition(":")[0] for outcome in others.values()).most_common():
        print(f"{'  ' + outcome:<44}{count:>6}")
    print(f"{'milliseconds a script':<44}{1000 * seconds / max(len(rows), 1):>6.1f}")


def _print_differences(named: list[tuple[str, list[Difference]]]) -> None:
    for source, differences in named:
        print(source)
        for one in differences:
            print(f"    {one.key}: row {str(one.row)[:70]!r}, read {str(one.read)[:70]!r} ({one.kind})")


if __name__ == "__main__":
    main()
