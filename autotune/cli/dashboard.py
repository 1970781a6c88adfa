"""`autotune dashboard`: optuna-dashboard on loopback, over a read-only snapshot."""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Optional

import typer

from autotune.cli.printing import print_json
from autotune.cli.selection import JobOption, select
from autotune.errors import StoreError
from autotune.search.dashboard import serve
from autotune.store.snapshot import snapshot

_REFRESH_S = 10.0


def dashboard(
    job: Optional[str] = JobOption,
    port: int = typer.Option(8080, min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one."),
    as_json: bool = typer.Option(False, "--json", help="Print the address as one JSON object."),
) -> None:
    """Serve the studies on 127.0.0.1 from a snapshot that is renewed while a job runs."""
    url = select(job).url
    with tempfile.TemporaryDirectory(prefix="autotune-dashboard-") as folder:
        copy = Path(folder) / "snapshot.db"
        snapshot(url, copy)
        threading.Thread(target=_renew, args=(url, copy), daemon=True).start()
        with suppress(KeyboardInterrupt):
            serve(copy, port=port, announce=lambda address: _announce(address, as_json=as_json))


def _announce(address: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"address": address})
    else:
        typer.echo(f"{address} (Ctrl-C ends it)")


def _renew(url: str, copy: Path) -> None:
    """Copies anew as long as the process lives; the page reads the studies on every poll."""
    pause = threading.Event()
    while not pause.wait(_REFRESH_S):
        with suppress(StoreError):  # the last good copy stays on show
            snapshot(url, copy)
