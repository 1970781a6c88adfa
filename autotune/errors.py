"""The exception tree: everything autotune raises on purpose.

    AutotuneError              exit 1
    +-- InputError             exit 2   something the user gave is wrong; carries Faults
    |   +-- JobFileError                 job or search-space file
    |   +-- VerlConfigError              keys, values or combinations that verl does not take
    |   +-- InputFileError               model folder, data, reward file
    |   +-- StoreError                   database of another job, newer schema, unwritable, full disk
    |   +-- ResourceError                fewer GPUs than the job wants, second controller
    +-- NothingFeasibleError   exit 3   a stage ended without one configuration to go on with
    +-- StoppedError           exit 4   stopped by the user or by the budget; the same command resumes
    +-- UserCodeError          exit 2   the user's reward function or data stops every trial

A failed trial is data (`records.Failure`), never one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong with what the user gave, complete enough to mend it."""

    where: str
    """File, command-line option or resource: `jobs/tiny.yaml`."""
    key: str = ""
    """Dotted key inside `where`; empty where the whole is meant."""
    found: str = ""
    """What stands there, as the user would recognise it."""
    allowed: str = ""
    """What may stand there."""
    next_step: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        place = f"{self.where}: {self.key}" if self.key else self.where
        parts = [place]
        if self.found:
            parts.append(f"found {self.found}")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return "; ".join(parts)


class AutotuneError(Exception):
    """Root of everything raised on purpose."""

    exit_code: ClassVar[int] = 1


class InputError(AutotuneError):
    """The user's input is wrong; `faults` lists all of it at once."""

    exit_code: ClassVar[int] = 2

    def __init__(self, faults: Sequence[Fault] | Fault) -> None:
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def to_json(self) -> list[dict[str, str]]:
        """The faults as plain values for `--json`."""
        return [asdict(fault) for fault in self.faults]


class JobFileError(InputError):
    """A job or search-space file is missing, malformed or contradictory."""


class VerlConfigError(InputError):
    """verl does not have this key, or does not take this value or combination."""


class InputFileError(InputError):
    """Model folder, data file or reward file is missing or unusable."""


class StoreError(InputError):
    """The database or results folder cannot be used as it is."""


class ResourceError(InputError):
    """The machine does not have what the job asks for, or another controller holds it."""


class UserCodeError(InputError):
    """The user's own code or data ends every trial; searching on would waste GPUs."""


class NothingFeasibleError(AutotuneError):
    """A stage ended without one configuration that the next stage could start from."""

    exit_code: ClassVar[int] = 3


class StoppedError(AutotuneError):
    """Stopped before the end, by the user or by the budget; the same command resumes."""

    exit_code: ClassVar[int] = 4
