"""Progress while a job runs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from autotune.controller.progress import FlightProgress, SilentWatcher, Standing, Watcher

_REFRESH_PER_S = 2.0


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """A watcher that fits where the output goes."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield SilentWatcher()
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=_REFRESH_PER_S, transient=True) as live:
            yield TerminalWatcher(live)
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

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, standing: Standing) -> None:
        """Redraws the table."""
        self._live.update(standing_table(standing))

    def say(self, text: str) -> None:
        """One line above the table."""
        self._live.console.print(Text(text))


def standing_table(standing: Standing) -> RenderableType:
    """The stage, its running attempts and what was spent."""
    best = "" if standing.best is None else f", best {standing.best:.4g}"
    limit = standing.budget.gpu_hours
    spent = f"device hours {standing.device_s / 3600:.2f}" + ("" if limit is None else f" of {limit:g}")
    title = f"{standing.stage.value}: {standing.told} of {standing.planned} trials told{best}; {spent}"
    table = Table(box=None, pad_edge=False)
    for column in ("trial", "phase", "step", "tokens/s/GPU", "reward", "KL", "peak memory", "s"):
        table.add_column(column, justify="left" if column in ("trial", "phase") else "right")
    for flight in standing.flights:
        table.add_row(*_cells(flight))
    return Group(Text(title, style="bold"), table)


def _cells(flight: FlightProgress) -> list[str]:
    return [
        f"#{flight.number} {flight.role.value}"
        + (f" (attempt {flight.attempt + 1})" if flight.attempt else ""),
        flight.phase,
        f"{flight.step}/{flight.steps}",
        _figure(flight.tokens_per_s_per_gpu, ".0f"),
        _figure(flight.reward, ".3f"),
        _figure(flight.kl, ".4f"),
        _figure(flight.peak_memory_frac, ".0%"),
        f"{flight.elapsed_s:.0f}",
    ]


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
