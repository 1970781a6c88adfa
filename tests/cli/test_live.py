"""Progress: a screen that stays in place in a terminal, plain lines elsewhere, nothing when asked."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys

import pytest
from rich.console import Console
from rich.live import Live

from autotune.cli import live
from autotune.cli.live import LineWatcher, TerminalWatcher, watching
from autotune.controller.progress import SilentWatcher
from tests.report.test_run_screen import standing

SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
INTERRUPTED = """
import os, signal, time
from autotune.cli.live import watching
from tests.report.test_run_screen import standing
try:
    with watching(quiet=False) as watcher:
        watcher.show(standing())
        time.sleep(0.7)
        watcher.say("speed #2: completed")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
except KeyboardInterrupt:
    pass
"""


def test_lines_are_printed_whole_and_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=40)
    watcher = LineWatcher(console)
    watcher.show(standing())
    watcher.say(f"survive #1: [/red] {'x' * 60}")
    assert console.file.getvalue() == f"survive #1: [/red] {'x' * 60}\n"  # type: ignore[attr-defined]


def test_a_terminal_keeps_the_screen_below_what_happened() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, no_color=True)
    watcher = TerminalWatcher(console)
    with Live(console=console, get_renderable=watcher.screen, auto_refresh=False, transient=True) as display:
        watcher.show(standing())
        display.refresh()
        watcher.say("speed #2: [/red] completed")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "speed #2: [/red] completed" in text
    assert "2 of 6 trials told" in text


def test_before_the_first_turn_there_is_nothing_to_show() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(TerminalWatcher(console).screen())
    assert console.file.getvalue() == "\n"  # type: ignore[attr-defined]


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


def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "60", "LINES": "24"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert child.wait(30) == 0
    assert b"trials told" in shown
    assert b"speed #2: completed" in shown
    assert shown.rindex(SHOW_CURSOR) > shown.rindex(HIDE_CURSOR)
    assert shown.rindex(SHOW_CURSOR) > shown.rindex(b"trials told")
