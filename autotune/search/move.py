"""One change of one value."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.records import Value


@dataclass(frozen=True)
class Move:
    """A key of verl's, its value, and the value to try."""

    key: str
    before: Value
    """None where it is unset or unknown."""
    after: Value
    """None where only the direction is known: see `why`."""
    why: str

    def to_json(self) -> dict[str, Value]:
        """The fields of `explain --json`."""
        return {"key": self.key, "from": self.before, "to": self.after, "why": self.why}
