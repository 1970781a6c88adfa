"""Progress while a job runs: a screen that stays in place in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from autotune.controller.progress import SilentWatcher, Standing, Watcher
from autotune.report.run_screen import run_screen

_REFRESH_PER_S = 2.0


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """A watcher that fits where the output goes; a terminal is left as it was found."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield SilentWatcher()
    elif console.is_terminal:
        watcher = TerminalWatcher(console)
        with Live(
            console=console,
            get_renderable=watcher.screen,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
        ):
            yield watcher
    else:
        yield LineWatcher(console)


class LineWatcher:
    """One plain line for each thing that happened."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, standing: Standing) -> None:
        """Nothing: a log file does not want a line per turn."""

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False, soft_wrap=True)


class TerminalWatcher:
    """What happened scrolls by; the trials in flight and the budget stay in place below."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: Standing | None = None

    def show(self, standing: Standing) -> None:
        """Keeps the snapshot: drawing it is the display's own thread's work, not the controller's."""
        self._latest = standing

    def say(self, text: str) -> None:
        """One line above the screen."""
        self._console.print(Text(text))

    def screen(self) -> RenderableType:
        """The latest snapshot, as wide as the terminal is now."""
        return Text() if self._latest is None else run_screen(self._latest, self._console.width)
