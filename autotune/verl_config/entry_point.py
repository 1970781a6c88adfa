"""Which configuration a verl entry composes when its command line does not say."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autotune.verl_config.compose import config_folder

MAIN_PPO = "verl.trainer.main_ppo"


@dataclass(frozen=True)
class EntryConfig:
    """The arguments of `@hydra.main`, as verl's entry states them."""

    file: Path
    config_path: str | None
    config_name: str | None


def entry_config(entry: str, roots: Iterable[Path] = ()) -> EntryConfig | None:
    """What the entry's own source says; None where its file is not found below `roots` or beside verl.

    The file is parsed, not imported.
    """
    inside = Path(*entry.split(".")).with_suffix(".py")
    beside_verl = config_folder().parents[2]
    file = next((root / inside for root in (*roots, beside_verl) if (root / inside).is_file()), None)
    if file is None:
        return None
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_hydra_main(node.func):
            said = {
                word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)
            }
            return EntryConfig(file, _text(said.get("config_path")), _text(said.get("config_name")))
    return None


def resolved_config(
    entry: str, config_path: str | None, config_name: str | None, roots: Iterable[Path] = ()
) -> tuple[str | None, str | None]:
    """(folder, name) of the primary configuration; folder None: verl's own; name None: not known.

    Hydra takes a relative config_path from the entry's own file.
    """
    known = entry_config(entry, roots)
    name = config_name or (known.config_name if known is not None else None)
    path = config_path or (known.config_path if known is not None else None)
    if path is None:
        return None, name
    if path.startswith(("/", "$", "~")):
        return path, name
    if known is None:
        return (None if path.strip("./") == "config" else path), name
    folder = (known.file.parent / path).resolve()
    return (None if folder == config_folder().resolve() else str(folder)), name


def _is_hydra_main(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "main" and _named(function.value, "hydra")


def _named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
