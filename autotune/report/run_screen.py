"""The screen of a running job: a pure function of one snapshot. `cli/live.py` draws it twice a second."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from autotune.controller.progress import DeviceMemory, FinishedTrial, FlightProgress, Standing
from autotune.records import AttemptRole, StageName
from autotune.report.wording import ABSENT, number, percent, seconds

_FULL, _EMPTY, _PEAK, _LIMIT = "\u2588", "\u2591", "\u2592", "\u2502"
_BAR = 16
_UNITS = {StageName.SURVIVE: "", StageName.SPEED: " tok/s/GPU", StageName.QUALITY: " reward"}


def run_screen(standing: Standing, width: int) -> RenderableType:
    """Stage, budget, every running attempt and the last finished trials, in lines of at most `width`."""
    lines = [_stage(standing), *_budget(standing, width)]
    for flight in standing.flights:
        lines += [Text(), *_flight(flight, standing.memory_limit_frac, width)]
    if standing.finished:
        lines += [Text(), Text("last finished", style="bold")]
        lines += [_finished(trial) for trial in reversed(standing.finished)]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def memory_bar(frac: float, peak_frac: float, limit_frac: float | None, width: int = _BAR) -> Text:
    """Use in full blocks, the peak so far in shaded ones, a stroke where the limit is; red beyond it."""
    over = limit_frac is not None and peak_frac > limit_frac
    filled, reached = _cells(frac, width), _cells(peak_frac, width)
    cells = [_FULL if i < filled else _PEAK if i < reached else _EMPTY for i in range(width)]
    if limit_frac is not None:
        cells[min(width - 1, int(limit_frac * width))] = _LIMIT
    return Text("".join(cells), style="red" if over else "cyan")


def _cells(frac: float, width: int) -> int:
    return max(0, min(width, round(frac * width)))


def _stage(standing: Standing) -> Text:
    text = Text(standing.stage.value, style="bold")
    text.append(f"  {standing.told} of {standing.planned} trials told", style="not bold")
    if standing.best is not None:
        text.append(f"  best {number(standing.best)}{_UNITS[standing.stage]}", style="bold green")
    return text


def _budget(standing: Standing, width: int) -> Iterator[Text]:
    """What is used and left, on as many lines as it takes."""
    budget = standing.budget
    parts = [_used("GPU hours", standing.device_s / 3600, budget.gpu_hours)]
    if budget.trials is not None:
        parts.append(_used("trials", standing.trials, budget.trials))
    parts.append(_used("hours", standing.wall_s / 3600, budget.wall_hours))
    line = "used"
    for part in parts:
        if len(line) + 2 + len(part) > width and line.strip():
            yield Text(line, style="dim")
            line = "    "
        line += f"  {part}"
    yield Text(line, style="dim")


def _used(name: str, used: float, limit: float | None) -> str:
    shown = number(round(used, 2))
    if limit is None:
        return f"{name} {shown}"
    return f"{name} {shown}/{number(limit)} ({number(round(max(0.0, limit - used), 2))} left)"


def _flight(flight: FlightProgress, limit_frac: float | None, width: int) -> Iterator[Text]:
    name = Text(f"#{flight.number}", style="bold")
    if flight.role is not AttemptRole.MEASURE:
        name.append(f" {flight.role.value}", style="not bold")
    if flight.attempt:
        name.append(f" (attempt {flight.attempt + 1})", style="not bold")
    done = flight.step / flight.steps if flight.steps else 0.0
    name.append(f"  step {flight.step}/{flight.steps} ", style="not bold")
    name.append(_FULL * _cells(done, 10) + _EMPTY * (10 - _cells(done, 10)), style="not bold green")
    name.append(f"  {seconds(flight.elapsed_s)}", style="not bold dim")
    yield name
    state = Text(f"    {flight.phase}", style="yellow")
    if flight.step:
        state.append(
            f"  {number(flight.tokens_per_s_per_gpu)} tok/s/GPU"
            f"  reward {number(flight.reward)}  KL {number(flight.kl)}",
            style="default",
        )
    yield state
    if flight.devices:
        yield from _devices(flight.devices, limit_frac, width)
    elif flight.peak_memory_frac is not None:
        yield Text(f"    peak memory {percent(flight.peak_memory_frac)}")


def _devices(devices: tuple[DeviceMemory, ...], limit_frac: float | None, width: int) -> Iterator[Text]:
    """As many bars on a line as there is room for."""
    labels = max(len(one.device) for one in devices)
    each = labels + _BAR + 18
    on_a_line = max(1, (width - 4) // each)
    for start in range(0, len(devices), on_a_line):
        line = Text("    ")
        for one in devices[start : start + on_a_line]:
            line.append(f"{one.device:<{labels}} ").append_text(
                memory_bar(one.used_frac, one.peak_frac, limit_frac)
            )
            line.append(f" {percent(one.used_frac):>5} peak {percent(one.peak_frac):<5} ")
        yield line


def _finished(trial: FinishedTrial) -> Text:
    text = Text(f"#{trial.number} ")
    good = trial.outcome == "completed"
    text.append(trial.outcome, style="green" if good else "red")
    if trial.accepted:
        text.append(" accepted", style="bold green")
    figures = trial.figures
    for word, shown in (
        ("peak ", percent(figures.peak_memory_frac)),
        ("tok/s/GPU ", number(figures.tokens_per_s_per_gpu)),
        ("reward ", number(figures.reward)),
        ("KL ", number(figures.kl)),
    ):
        if shown != ABSENT:
            text.append(f"  {word}{shown}")
    return text
