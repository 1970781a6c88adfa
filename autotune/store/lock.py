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

    The file stays behind: removing it would let a third controller lock a new file of the same name
    while the second still waits on the old one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> ControllerLock:
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResourceError(self._held()) from error
            raise StoreError(self._unusable(error)) from error
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(self._unusable(error)) from error

    def _held(self) -> Fault:
        pid, _, host = self.path.read_text(errors="replace").strip().partition(" ")
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
