"""Numbers as people read them, and as strict JSON takes them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from autotune.records import Value

ABSENT = "-"


def percent(fraction: float | None) -> str:
    """0.8 as `80 %`."""
    return ABSENT if fraction is None else f"{100 * fraction:.0f} %"


def factor(gain: float | None) -> str:
    """1.299 as `1.29x`: cut off, not rounded, so that nothing reads as the goal that it misses."""
    return ABSENT if gain is None else f"{math.floor(gain * 100 + 1e-9) / 100:.2f}x"


def signed_percent(fraction: float | None) -> str:
    """0.123 as `+12.3 %`."""
    return ABSENT if fraction is None else f"{100 * fraction:+.1f} %"


def number(value: float | None) -> str:
    """Four significant digits, large ones whole with thousands apart: `0.1234`, `12,345`."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def seconds(value_s: float | None) -> str:
    """The largest two units: `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if value_s is None:
        return ABSENT
    whole_s = round(value_s)
    if whole_s < 60:
        return f"{whole_s} s"
    minutes, rest_s = divmod(whole_s, 60)
    if minutes < 60:
        return f"{minutes} min {rest_s:02d} s"
    hours, rest_min = divmod(minutes, 60)
    return f"{hours} h {rest_min:02d} min"


def gigabytes(value_gb: float | None) -> str:
    """Three significant digits: `71.5 GB`."""
    return ABSENT if value_gb is None else f"{value_gb:.3g} GB"


def short_key(key: str) -> str:
    """The last two parts of a dotted key, enough to know it by in a table."""
    return ".".join(key.split(".")[-2:])


def value_text(value: Value) -> str:
    """A configuration's value as verl's YAML has it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def counted(names: Any) -> str:
    """Equal names once, with their number: `8 x H100`; empty for anything but a list."""
    if not isinstance(names, list):
        return ""
    return ", ".join(
        f"{count} x {name}" if count > 1 else str(name) for name, count in Counter(names).items()
    )


def strict(value: Any) -> Any:
    """The same value for JSON that every reader takes: NaN and infinities as null, tuples as lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return value
