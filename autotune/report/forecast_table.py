"""The memory forecast as a table for people: one row a phase, its largest term named."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from autotune.forecast.memory import USABLE_FRAC, MemoryForecast, PhasePeak
from autotune.report.wording import percent

_TERMS_SHOWN = 4


def forecast_table(made: MemoryForecast) -> Table:
    """Phases in the run's order: peak, share of the device, largest term, the terms after it."""
    table = Table(title=_title(made), title_justify="left", caption_justify="left")
    table.add_column("phase")
    table.add_column("peak", justify="right")
    table.add_column("of device", justify="right")
    table.add_column("largest term")
    table.add_column("then")
    for one in made.phases:
        table.add_row(*_row(one, made))
    return table


def forecast_sentences(made: MemoryForecast, largest: Mapping[str, float]) -> list[str]:
    """What the table does not say: whether it fits, cache, host, assumed lengths, largest sizes."""
    worst = made.worst
    lines = []
    if made.fits:
        of = f"{worst.peak_gb:.1f} of {made.capacity_gb:.1f} GB"
        lines.append(f"fits: the highest peak is {of}, in {worst.phase}")
    elif worst.peak_gb > USABLE_FRAC * made.capacity_gb:
        lines.append(
            f"does not fit: {worst.phase} needs {worst.peak_gb:.1f} of {made.capacity_gb:.1f} GB, "
            f"{words(worst.largest_term)} most ({worst.terms[worst.largest_term]:.1f} GB)"
        )
    if not made.rollout.can_serve:
        lines.append(
            f"the rollout engine cannot start: {made.rollout.cache_gb:.1f} GB are left for its key-value "
            f"cache, one sequence of the longest length needs {made.rollout.sequence_cache_gb:.1f}; "
            "raise gpu_memory_utilization or tensor_model_parallel_size"
        )
    if not made.fits_host and made.host_capacity_gb is not None:
        owner = max(made.host, key=lambda name: made.host[name])
        lines.append(
            f"host memory: {made.host_gb:.0f} of {made.host_capacity_gb:.0f} GB needed, {words(owner)} most"
        )
    lines.append(f"samples were taken to be {made.lengths.sample_tokens:.0f} tokens long on average")
    lines += [f"largest that fits: {key}={value:g}" for key, value in largest.items()]
    return lines


def words(term: str) -> str:
    """A term's name for people."""
    return term.replace("_", " ")


def _row(one: PhasePeak, made: MemoryForecast) -> tuple[Text | str, ...]:
    ordered = sorted(one.terms.items(), key=lambda item: -item[1])
    over = one.peak_gb > USABLE_FRAC * made.capacity_gb
    first, *others = ordered
    then = ", ".join(f"{words(name)} {gb:.1f}" for name, gb in others[: _TERMS_SHOWN - 1])
    return (
        one.phase,
        Text(f"{one.peak_gb:.1f} GB", style="red" if over else ""),
        percent(one.peak_gb / made.capacity_gb),
        f"{words(first[0])} {first[1]:.1f}",
        then,
    )


def _title(made: MemoryForecast) -> str:
    return f"memory per GPU, forecast ({made.capacity_gb:.1f} GB)"
