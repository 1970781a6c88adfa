"""A consistent copy of a database that is being written, for whoever only wants to look."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from autotune.errors import Fault, StoreError
from autotune.store.database import read_only_connection, refusal, sqlite_path


def snapshot(url: str, target: Path) -> None:
    """Writes the database as it is now to `target`, replacing it whole; the writer is not held up.

    The copy is one plain file without write-ahead log, so it can be opened where nothing may be written.

    Raises:
        StoreError: `url` is no SQLite file, it is missing or damaged, or `target` cannot be written.
    """
    source = sqlite_path(url)
    if source is None or not source.is_file():
        raise StoreError(
            Fault(
                where=url,
                key="storage",
                found="no database file" if source is not None else "a database on a server",
                allowed="an existing SQLite file",
                next_step="start the job with `autotune run`, or open the server's database itself",
            )
        )
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(read_only_connection(source)) as original:
            _copy(original, beside)
        os.replace(beside, target)
    except sqlite3.Error as error:
        raise StoreError(refusal(str(source), str(error))) from error
    except OSError as error:
        fault = Fault(
            where=str(target), found=error.strerror or str(error), next_step="free or mend the folder"
        )
        raise StoreError(fault) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def _copy(original: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
