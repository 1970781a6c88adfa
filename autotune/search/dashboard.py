"""optuna-dashboard over a read-only snapshot, on loopback.

optuna-dashboard has no login and can rename, delete and tell; so writing requests are refused here,
and the snapshot is opened read-only besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from optuna.storages import RDBStorage
from optuna_dashboard import wsgi
from sqlalchemy.pool import NullPool

from autotune.errors import Fault, ResourceError

LOOPBACK = "127.0.0.1"

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


def serve(snapshot: Path, *, port: int, announce: Callable[[str], None]) -> None:
    """Serves the studies of `snapshot` until interrupted; the file may be replaced meanwhile.

    Args:
        snapshot: SQLite file with Optuna's tables.
        port: On 127.0.0.1; 0 takes a free one.
        announce: Called once with the page's address.

    Raises:
        ResourceError: The port is taken.
    """
    # NullPool: each request opens the file anew, and so sees a snapshot that was put in its place.
    storage = RDBStorage(
        f"sqlite:///file:{snapshot}?mode=ro&uri=true",
        engine_kwargs={"poolclass": NullPool},
        skip_table_creation=True,
    )
    try:
        server = make_server(LOOPBACK, port, read_only(wsgi(storage)), _Server, _QuietHandler)
    except OSError as error:
        raise ResourceError(
            Fault(
                where=f"{LOOPBACK}:{port}",
                found=error.strerror or str(error),
                allowed="a free port",
                next_step="choose another --port, or 0 for any free one",
            )
        ) from error
    with server:
        announce(f"http://{LOOPBACK}:{server.server_port}/dashboard/")
        server.serve_forever(poll_interval=0.2)


def read_only(application: Application) -> Application:
    """`application` without its writing requests: they are answered 405."""

    def guarded(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") in ("GET", "HEAD"):
            return application(environ, start_response)
        start_response(
            "405 Method Not Allowed", [("Content-Type", "application/json"), ("Allow", "GET, HEAD")]
        )
        return [b'{"reason": "this dashboard shows a read-only snapshot"}']

    return guarded


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Keeps request lines off the terminal."""
