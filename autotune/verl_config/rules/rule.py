"""What a rule is, what it looks at and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from autotune.records import Value
from autotune.verl_config.schema.released import Schema, release_order
from autotune.verl_config.training_shape import TrainingShape


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """verl refuses it, or dies or hangs of it."""
    WARNING = "warning"
    """verl runs, but not as the configuration says."""
    NOTE = "note"
    """Worth knowing; nothing is wrong."""


@dataclass(frozen=True)
class Fix:
    """Changes that mend a finding."""

    set: Mapping[str, Value] = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {"set": dict(self.set), "remove": list(self.remove)}


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One place where a rule applies."""

    key: str
    found: str
    message: str
    fix: Fix | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A hit with the rule that made it."""

    rule: str
    severity: Severity
    key: str
    found: str
    message: str
    fix: Fix | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields of `check --json`."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "key": self.key,
            "found": self.found,
            "message": self.message,
            "fix": self.fix.to_json() if self.fix else None,
        }


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A configuration as a rule sees it: what the user wrote, and what verl makes of it."""

    schema: Schema
    given: Mapping[str, Value]
    """The user's own values by dotted key, a leading `+` dropped."""
    added: frozenset[str] = frozenset()
    """Keys that the user wrote with a leading `+`."""
    unknown: frozenset[str] = frozenset()
    """Keys that the user wrote with a value nobody knows; null in `given`."""
    gpus: int
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the verl process, as far as they are known."""
    model: Mapping[str, Any] | None = None
    """The model's config.json where its folder is here."""
    own_folders: bool = False
    """autotune starts the run: it gives every attempt folders of its own and ends it cleanly."""

    @cached_property
    def flat(self) -> Mapping[str, Value]:
        """Every key with its resolved value, verl's defaults included."""
        return self.schema.resolved(self.given)

    @cached_property
    def shape(self) -> TrainingShape:
        """The sizes that verl's constraints speak of."""
        return TrainingShape(self.flat, self.gpus)

    @property
    def version(self) -> tuple[int, ...]:
        """The version of verl, for comparing."""
        return release_order(self.schema.version)

    @property
    def is_v1(self) -> bool:
        """Whether the V1 trainer runs."""
        return bool(self.flat.get("trainer.use_v1"))

    def since(self, version: str) -> bool:
        """Whether verl is at least this old a version."""
        return self.version >= release_order(version)

    def gives(self, key: str) -> bool:
        """Whether the user wrote the key."""
        return key in self.given


@dataclass(frozen=True)
class Rule:
    """One thing to look for."""

    id: str
    severity: Severity
    reason: str
    """Why it matters, with verl's own place where there is one."""
    hits: Callable[[Setting], Iterable[Hit]]

    def findings(self, setting: Setting) -> list[Finding]:
        """Every place where the rule applies."""
        return [
            Finding(
                rule=self.id,
                severity=self.severity,
                key=hit.key,
                found=hit.found,
                message=hit.message,
                fix=hit.fix,
            )
            for hit in self.hits(setting)
            if hit.key not in setting.unknown
        ]


def shown(value: Value) -> str:
    """A value as it stands in YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
