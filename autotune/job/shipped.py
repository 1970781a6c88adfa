"""The jobs and search spaces that come with autotune, from a checkout as well as from a wheel.

`_shipped/` inside the package holds links to the folders at the top of the repository; a wheel carries
the files themselves in their place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import autotune

Kind = Literal["jobs", "search_spaces"]


def shipped(kind: Kind, name: str) -> Path | None:
    """The shipped YAML file of that name (with or without `.yaml`); None if there is none."""
    wanted = name.removesuffix(".yaml")
    return next((path for path in _files(kind) if path.stem == wanted), None)


def shipped_names(kind: Kind) -> tuple[str, ...]:
    """Names of all shipped files of that kind, sorted, without `.yaml`."""
    return tuple(path.stem for path in _files(kind))


def _files(kind: Kind) -> list[Path]:
    folder = Path(autotune.__file__).parent / "_shipped" / kind
    return sorted(folder.glob("*.yaml"))
