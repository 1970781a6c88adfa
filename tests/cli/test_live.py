"""Progress: a table that stays in place in a terminal, plain lines elsewhere, nothing when asked."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from autotune.cli import live
from autotune.cli.live import LineWatcher, TerminalWatcher, standing_table, watching
from autotune.controller.progress import FlightProgress, SilentWatcher, Standing
from autotune.job.model import BudgetSection
from autotune.records import AttemptRole, StageName

FLIGHT = FlightProgress(
    number=3,
    role=AttemptRole.MEASURE,
    attempt=0,
    phase="update_actor",
    step=2,
    steps=4,
    elapsed_s=71.6,
    tokens_per_s_per_gpu=1234.5,
    reward=0.4567,
    kl=0.01234,
    peak_memory_frac=0.715,
)


def standing(**changes: Any) -> Standing:
    values: dict[str, Any] = {
        "stage": StageName.SPEED,
        "told": 2,
        "planned": 6,
        "best": 1.25,
        "device_s": 5400.0,
        "wall_s": 5500.0,
        "budget": BudgetSection(gpu_hours=4),
        "flights": (FLIGHT,),
    }
    return Standing(**{**values, **changes})


def text_of(renderable: Any, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_table_shows_what_runs_and_what_is_left() -> None:
    lines = text_of(standing_table(standing())).splitlines()
    assert lines[0] == "speed: 2 of 6 trials told, best 1.25; device hours 1.50 of 4"
    assert " ".join(lines[2].split()) == "#3 measure update_actor 2/4 1234 0.457 0.0123 72% 72"


def test_what_is_not_known_yet_is_a_dash() -> None:
    flight = FlightProgress(
        number=0,
        role=AttemptRole.CERTIFICATE,
        attempt=1,
        phase="launch",
        step=0,
        steps=2,
        elapsed_s=0.0,
        tokens_per_s_per_gpu=None,
        reward=None,
        kl=None,
        peak_memory_frac=None,
    )
    text = text_of(standing_table(standing(best=None, budget=BudgetSection(), flights=(flight,))))
    assert "2 of 6 trials told; device hours 1.50\n" in text
    assert "#0 certificate (attempt 2)" in text
    assert text.splitlines()[2].split()[-6:] == ["0/2", "-", "-", "-", "-", "0"]


def test_a_narrow_terminal_and_no_flight() -> None:
    assert "speed" in text_of(standing_table(standing()), width=20)
    assert "tokens/s/GPU" in text_of(standing_table(standing(flights=())))


def test_lines_are_printed_whole_and_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=40)
    watcher = LineWatcher(console)
    watcher.show(standing())
    watcher.say(f"survive #1: [/red] {'x' * 60}")
    assert console.file.getvalue() == f"survive #1: [/red] {'x' * 60}\n"  # type: ignore[attr-defined]


def test_a_terminal_keeps_the_table_below_what_happened() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, no_color=True)
    with Live(console=console, auto_refresh=False, transient=True) as display:
        watcher = TerminalWatcher(display)
        watcher.show(standing())
        display.refresh()
        watcher.say("speed #2: [/red] completed")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "speed #2: [/red] completed" in text
    assert "2 of 6 trials told" in text


@pytest.mark.parametrize(
    ("quiet", "terminal", "kind"),
    [(True, True, SilentWatcher), (False, True, TerminalWatcher), (False, False, LineWatcher)],
)
def test_the_watcher_fits_where_the_output_goes(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal: bool, kind: type
) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    monkeypatch.setattr(live, "Console", lambda **_: console)
    with watching(quiet=quiet) as watcher:
        assert isinstance(watcher, kind)
