"""Each interpolation's text is parsed once in a process.

OmegaConf parses a text whenever its value is read. verl's tree has a hundred such texts, the same ones for
every candidate, and parsing them is half the time of composing a configuration.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from omegaconf import base

_TEXTS_KEPT = 1024


def parse_each_text_once() -> None:
    """Keeps OmegaConf's parse trees by their text, for the whole process; twice is as once.

    A tree depends on its text alone, and OmegaConf's visitor only reads it. A text that does not parse is
    not kept: it raises each time. An OmegaConf that parses elsewhere is left as it is.
    """
    library: Any = base
    parse = getattr(library, "parse", None)
    if parse is not None and not hasattr(parse, "cache_info"):
        library.parse = lru_cache(maxsize=_TEXTS_KEPT)(parse)
