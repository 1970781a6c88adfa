"""The stored schemas of released verl versions."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, OmegaConfBaseException

from autotune.errors import Fault, VerlConfigError
from autotune.records import Value
from autotune.verl_config import tree as trees
from autotune.verl_config.free_form import is_free_form

DATA = Path(__file__).with_name("released.json.gz")
"""Written by `derive`."""

_DIGITS = re.compile(r"\d+")


def release_order(version: str) -> tuple[int, ...]:
    """For comparing versions; what follows the three numbers is left out."""
    return tuple(int(number) for number in _DIGITS.findall(version)[:3])


@dataclass(frozen=True)
class Schema:
    """The keys of one primary configuration of one verl version."""

    version: str
    config_name: str
    defaults: Mapping[str, Value]
    """Dotted key to default; interpolations as text, empty mappings and lists as leaves."""

    @cached_property
    def sections(self) -> frozenset[str]:
        """Dotted keys of the mappings that have keys of their own."""
        found: set[str] = set()
        for key in self.defaults:
            parts = key.split(".")
            found.update(".".join(parts[:end]) for end in range(1, len(parts)))
        return frozenset(found)

    @cached_property
    def by_last_name(self) -> Mapping[str, tuple[str, ...]]:
        """Last part of a key to all keys that end so."""
        names: dict[str, tuple[str, ...]] = {}
        for key in self.defaults:
            name = key.rsplit(".", 1)[-1]
            if not name.startswith("_"):
                names[name] = (*names.get(name, ()), key)
        return names

    def accepts(self, key: str) -> bool:
        """Whether verl's configuration has the key, or the section takes any."""
        if key in self.defaults or key in self.sections or is_free_form(key, self.defaults):
            return True
        # A section that is an interpolation of another one has that one's keys.
        return key in self.resolved_defaults

    def resolved(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The defaults with `values` over them, interpolations resolved; what does not fit is left out."""
        return dict(_resolved(self._source.copy(), values, self.sections, self.defaults))

    @cached_property
    def resolved_defaults(self) -> Mapping[str, Value]:
        """The defaults alone, interpolations resolved."""
        return self.resolved({})

    @cached_property
    def _source(self) -> DictConfig:
        nested: dict[str, Any] = {}
        for key, value in self.defaults.items():
            *parents, name = key.split(".")
            section = nested
            for parent in parents:
                section = section.setdefault(parent, {})
            section[name] = value
        return OmegaConf.create(nested)


def _resolved(
    source: DictConfig, values: Mapping[str, Value], sections: frozenset[str], defaults: Mapping[str, Value]
) -> Mapping[str, Value]:
    for given, value in values.items():
        for key, leaf in trees.spread(given, value, sections):
            try:
                OmegaConf.update(source, key, trees.as_verl_reads(leaf, defaults.get(key)), merge=True)
            except GrammarParseError:
                # A shell's variable that nobody resolved: the value is not known.
                OmegaConf.update(source, key, None)
            except (OmegaConfBaseException, AssertionError, TypeError):
                # A value below a leaf, told as an unknown key already.
                continue
    return trees.flatten(trees.resolve(source)[0])


def released_versions() -> tuple[str, ...]:
    """The stored versions, oldest first."""
    return tuple(sorted(_stored(), key=release_order))


def configurations(version: str) -> tuple[str, ...]:
    """The primary configurations of a stored version."""
    return tuple(sorted(_stored()[version]))


@lru_cache(maxsize=64)
def released_schema(version: str, config_name: str) -> Schema:
    """The schema of a stored version.

    Raises:
        VerlConfigError: The version, or this primary configuration of it, is not stored.
    """
    if version not in _stored():
        raise VerlConfigError(
            Fault(
                where="verl version",
                found=version,
                allowed=", ".join(released_versions()),
                next_step="name one of these with --verl-version",
            )
        )
    configs = _stored()[version]
    if config_name not in configs:
        allowed = ", ".join(sorted(configs))
        fault = Fault(where=f"verl {version}", key="config_name", found=config_name, allowed=allowed)
        raise VerlConfigError(fault)
    return Schema(version, config_name, configs[config_name])


@lru_cache(maxsize=1)
def _stored() -> Mapping[str, Mapping[str, Mapping[str, Value]]]:
    """Version to configuration to flat defaults, put together from the differences."""
    differences = json.loads(gzip.decompress(DATA.read_bytes()))
    flats: dict[str, dict[str, dict[str, Value]]] = {}
    before: dict[str, dict[str, Value]] = {}
    for version in sorted(differences, key=release_order):
        flats[version] = {}
        for name, difference in differences[version].items():
            flat = {**before.get(name, {}), **difference["set"]}
            flats[version][name] = {key: flat[key] for key in flat if key not in set(difference["drop"])}
        before = flats[version]
    return flats
