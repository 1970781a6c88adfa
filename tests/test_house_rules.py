"""Rules of this repository that no linter knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
CODE = (".py", ".c", ".h")
TEXTS = (*CODE, ".yaml", ".yml", ".toml", ".md", ".lock", ".txt", ".cfg", "Makefile", "run")
MACHINE_PATH = re.compile(r"(?<![\w.}$>)/-])/(?:work|root|home/\w)(?:/|\b)")
REGISTRY = re.compile(r"https?://[\w.-]*(?:pypi|artifactory|nexus|devpi|jfrog|mirror|registry)[\w.-]*", re.I)
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
RECORDED = "tests/data/"
"""Below it lie logs as they were recorded."""


def repository_files() -> list[Path]:
    """Tracked files, and new ones that are not ignored."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    names = [name for name in done.stdout.split("\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def texts(*endings: str) -> dict[str, str]:
    """Texts by path from the root; recorded data is left out."""
    found = {}
    for path in repository_files():
        name = path.relative_to(ROOT).as_posix()
        if name.endswith(endings) and not name.startswith(RECORDED):
            found[name] = path.read_text(encoding="utf-8")
    return found


def test_files_are_short_enough_to_read() -> None:
    lengths = {name: text.count("\n") for name, text in texts(".py").items() if name.startswith("autotune/")}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_code_is_ascii() -> None:
    assert [name for name, text in texts(*CODE).items() if not text.isascii()] == []


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine paths", "package registries"])
def test_nothing_names_the_machine_it_was_written_on(pattern: re.Pattern[str]) -> None:
    found = {
        f"{name}:{number}": line.strip()
        for name, text in texts(*TEXTS).items()
        if name != "tests/test_house_rules.py"
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    }
    assert found == {}


def test_links_in_markdown_lead_somewhere() -> None:
    broken = []
    for name, text in texts(".md").items():
        for target in MARKDOWN_LINK.findall(text):
            if "://" not in target and not ((ROOT / name).parent / target).exists():
                broken.append(f"{name}: {target}")
    assert broken == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name
        for name, text in texts(".py").items()
        if name.startswith("autotune/") and not text.lstrip().startswith(('"""', "#!"))
    ]
    assert silent == []
