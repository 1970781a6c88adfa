"""One controller a job: a lock file that the system itself releases, whatever way the holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType

from autotune.errors import Fault, ResourceError, StoreError


class ControllerLock:
    """Held while it is entered.

    The file is removed by its holder, while still held. Whoever opened it before that and locks it
    after finds out that it is no longer the file of that name, and takes the new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> ControllerLock:
        while self._descriptor is None:
            descriptor = self._opened()
            try:
                self._take(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            if _is_named(self.path, descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(self._unusable(error)) from error

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResourceError(self._held()) from error
            raise StoreError(self._unusable(error)) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except OSError as error:
            self.path.unlink(missing_ok=True)
            raise StoreError(self._unusable(error)) from error

    def _held(self) -> Fault:
        try:
            text = self.path.read_text(errors="replace")
        except FileNotFoundError:  # its holder has just left
            text = ""
        pid, _, host = text.strip().partition(" ")
        return Fault(
            where=str(self.path),
            key="controller",
            found=f"this job is being run by process {pid or '?'} on {host or 'this machine'}",
            allowed="one controller a job",
            next_step=f"watch it with `autotune status`, or end it with `kill -INT {pid or 'PID'}`",
        )

    def _unusable(self, error: OSError) -> Fault:
        return Fault(
            where=str(self.path),
            key="storage.results",
            found=f"a folder where the lock cannot be taken ({error.strerror})",
            next_step="make the results folder writable, or name another storage.results on a local disk",
        )


def _is_named(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
