"""One database: engine, transactions, and what the database's refusals mean to a person.

A writing transaction takes SQLite's write lock when it begins: a transaction that reads first and
locks later fails at once when Optuna's connection wrote in between, whatever the time-out.
`synchronous=NORMAL` loses nothing to kill -9; a power cut may take the last seconds, never the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError
from sqlalchemy.orm import Session

from autotune.errors import Fault, StoreError

BUSY_TIMEOUT_S = 60.0

REFUSALS: tuple[tuple[str, str, str], ...] = (
    ("disk is full", "a full disk", "free space on this disk; the same command resumes"),
    ("readonly database", "a read-only database", "make the file and its folder writable, or use another"),
    ("database is locked", "a database locked by another program", "close what else writes to it"),
    ("malformed", "a damaged database", "restore the file from a copy, or move it away and start again"),
    ("not a database", "a file that is not a database", "move it away, or name another storage"),
    ("unable to open", "a file that cannot be opened", "check that the folder exists and may be written"),
    ("disk i/o error", "a disk error", "check the disk and its quota; network folders do not suit SQLite"),
)
"""(part of the database's own message, what it means, what to do)."""


class Database:
    """Connections to one database; every call of the store is one transaction here."""

    def __init__(self, url: str, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.url = url
        parsed = _parsed(url)
        self.where = parsed.database or url if parsed.get_backend_name() == "sqlite" else url
        self.engine = _engine(parsed, read_only=read_only, busy_timeout_s=busy_timeout_s)
        self._writer = self.engine.execution_options(autotune_begin="BEGIN IMMEDIATE")

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view of the database.

        Raises:
            StoreError: the database refuses, with what to do about it.
        """
        with self._translated(), Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction: all of it is written, or nothing.

        Raises:
            StoreError: the database refuses, with what to do about it.
        """
        with self._translated(), Session(self._writer) as session, session.begin():
            yield session

    @contextmanager
    def writing_rows(self) -> Iterator[Connection]:
        """As `writing`, for what comes with every metric row: plain statements, no records.

        Raises:
            StoreError: the database refuses, with what to do about it.
        """
        with self._translated(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (IntegrityError, ProgrammingError):
            raise
        except DBAPIError as error:
            raise StoreError(refusal(self.where, str(error.orig))) from error


def refusal(where: str, message: str) -> Fault:
    """What the database's `message` means and what to do about it."""
    for part, found, next_step in REFUSALS:
        if part in message.lower():
            return Fault(where=where, key="storage", found=f"{found} ({message})", next_step=next_step)
    return Fault(where=where, key="storage", found=message, next_step="check storage.url and the database")


def sqlite_path(url: str) -> Path | None:
    """The database file; None where `url` names a server."""
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def read_only_connection(path: Path) -> sqlite3.Connection:
    """An SQLite connection that cannot write, nor create the file."""
    # SQLAlchemy's pool hands a connection from thread to thread, one at a time.
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(
        address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise StoreError(
            Fault(
                where="storage.url",
                found=url,
                allowed="an SQLAlchemy URL such as sqlite:///results/job.db",
                next_step="correct storage.url, or leave it out",
            )
        ) from error


def _engine(url: URL, *, read_only: bool, busy_timeout_s: float) -> Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return create_engine(url)
        options: dict[str, Any] = {"connect_args": {"timeout": busy_timeout_s, "isolation_level": None}}
        if read_only:
            path = Path(url.database or "")
            options["creator"] = lambda: read_only_connection(path)
        engine = create_engine(url, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise StoreError(
            Fault(
                where="storage.url",
                found=f"a database whose driver is not installed ({error})",
                next_step="install the driver into this environment, or use sqlite:///...",
            )
        ) from error
    event.listen(engine, "connect", _on_connect(read_only))
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(read_only: bool) -> Callable[[sqlite3.Connection, object], None]:
    def set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA foreign_keys=ON")
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

    return set_pragmas


def _on_begin(connection: Connection) -> None:
    # The driver would begin late and commit before DDL; with isolation_level None we begin ourselves.
    connection.exec_driver_sql(connection.get_execution_options().get("autotune_begin", "BEGIN"))
