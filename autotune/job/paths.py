"""Names every file that a job writes. Nobody else joins these paths."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import Fault, StoreError
from autotune.records import StageName
from autotune.verl_plugin.warm import wire


@dataclass(frozen=True)
class AttemptPaths:
    """The files of one attempt; each attempt has a folder of its own, since verl truncates on start."""

    root: Path

    @property
    def request(self) -> Path:
        """What the runner was asked to start."""
        return self.root / "request.json"

    @property
    def running(self) -> Path:
        """Pids and create times of the supervisor and verl, written at their start."""
        return self.root / "running.json"

    @property
    def config(self) -> Path:
        """The resolved configuration that verl was started with."""
        return self.root / wire.CONFIG_FILE

    @property
    def console(self) -> Path:
        """Standard output and error of verl, interleaved."""
        return self.root / "console.log"

    @property
    def metrics(self) -> Path:
        """File of verl's own logger: one JSON line a step."""
        return self.root / wire.METRICS_FILE

    @property
    def phases(self) -> Path:
        """Phase marks that the plugin writes inside verl's driver."""
        return self.root / wire.PHASES_FILE

    @property
    def rank_load(self) -> Path:
        """What each rank had to do, written by the plugin's load monitor; read by `store.rank_load`."""
        return self.root / wire.RANK_LOAD_FILE

    @property
    def tensorboard(self) -> Path:
        """Folder of verl's TensorBoard logger, where the job mirrors to it."""
        return self.root / wire.TENSORBOARD_FOLDER

    @property
    def memory_caps(self) -> Path:
        """Folder where each capped CPU worker notes its cap."""
        return self.root / "memory_caps"

    @property
    def end(self) -> Path:
        """How the processes ended, written last."""
        return self.root / "end.json"

    @property
    def session_start(self) -> Path:
        """Of a warm session: the checkpoint that each candidate starts from; gone with the session."""
        return self.root / "start"

    @property
    def hydra(self) -> Path:
        """Hydra's own output folder and verl's working directory."""
        return self.root / "hydra"


@dataclass(frozen=True)
class JobPaths:
    """The files of one job under its results folder."""

    results: Path
    job_name: str

    @property
    def root(self) -> Path:
        """Folder of everything but the database and its lock."""
        return self.results / self.job_name

    @property
    def database(self) -> Path:
        """SQLite file with Optuna's tables and ours, where the job names no other URL."""
        return self.results / f"{self.job_name}.db"

    @property
    def lock(self) -> Path:
        """Held by the one controller of this job."""
        return self.results / f"{self.job_name}.lock"

    @property
    def attempts(self) -> Path:
        """Folder of the attempts' folders."""
        return self.root / "attempts"

    @property
    def sessions(self) -> Path:
        """Folder of the warm sessions' folders."""
        return self.root / "sessions"

    @property
    def exports(self) -> Path:
        """Folder of exported configurations."""
        return self.root / "exports"

    @property
    def notices(self) -> Path:
        """Who was told of what, one JSON line a delivery."""
        return self.root / "notices.jsonl"

    def config(self, stage: StageName, trial_number: int) -> Path:
        """Resolved configuration of a trial, whether or not it was ever launched."""
        return self.root / "configs" / f"{stage.value}-{trial_number}.yaml"

    def attempt(self, stage: StageName, trial_number: int, index: int) -> AttemptPaths:
        """Paths of the `index`-th attempt (from 0) of a trial."""
        return AttemptPaths(self.attempts / f"{stage.value}-{trial_number}-{index}")


def write_atomic(path: Path, text: str, *, key: str = "storage.results") -> None:
    """Write the whole of `text` or nothing: beside the target, synced, then renamed over it.

    Creates missing folders. The target keeps the permissions that a plain write would give it. `key` is
    what the user names the folder with: a key of the job file, or an option.

    Raises:
        StoreError: the folder cannot be written to (full disk, permissions, a file in the way).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, _plain_mode())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(write_fault(path.parent, error, key)) from error


def make_folder(folder: Path) -> None:
    """Makes `folder` and those above it.

    Raises:
        StoreError: it cannot be made (permissions, full disk, a file in the way).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(write_fault(folder, error)) from error


def write_fault(folder: Path, error: OSError, key: str = "storage.results") -> Fault:
    """The fault for a write under `folder` that the operating system refused."""
    found = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        next_step = f"free space there, or name another folder in {key}; the same command goes on"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        next_step = f"make it writable, or name another folder in {key}"
    else:
        next_step = f"name a usable folder in {key}"
    return Fault(
        where=str(folder),
        key=key,
        found=found,
        allowed="a writable folder",
        next_step=next_step,
    )


def _plain_mode() -> int:
    """The mode of a file made by `open`; mkstemp's is for its owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
