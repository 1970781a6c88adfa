"""A real program and a real HTTP server are told, and what goes wrong with them."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.channels import TRIES, CommandChannel, WebhookChannel
from autotune.controller.notices import Notice
from autotune.trial.process_tree import find_process

NOTICE = Notice(
    event="stop",
    job="j",
    outcome="stopped",
    statement="it's over; $HOME",
    exit_code=4,
    see=("autotune status",),
)
WRITE = """
import json, os, pathlib, sys
told = {name: value for name, value in os.environ.items() if name.startswith("AUTOTUNE_NOTICE_")}
pathlib.Path(sys.argv[1]).write_text(json.dumps([json.load(sys.stdin), told]))
print("noise")
"""


def test_a_program_gets_json_on_standard_input_and_the_gist_in_its_environment(
    tmp_path: Path, capfd: Any
) -> None:
    target = tmp_path / "told.json"
    channel = CommandChannel((sys.executable, "-c", WRITE, str(target)))
    assert channel.send(NOTICE) == ""
    told, variables = json.loads(target.read_text())
    assert told == json.loads(NOTICE.to_json())
    assert (told["event"], told["exit_code"], told["see"]) == ("stop", 4, ["autotune status"])
    assert variables == {
        "AUTOTUNE_NOTICE_EVENT": "stop",
        "AUTOTUNE_NOTICE_JOB": "j",
        "AUTOTUNE_NOTICE_STAGE": "",
        "AUTOTUNE_NOTICE_OUTCOME": "stopped",
        "AUTOTUNE_NOTICE_TEXT": "autotune j: stopped, stopped: it's over; $HOME",
        "AUTOTUNE_NOTICE_EXIT_CODE": "4",
    }
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("sh", "-c", "echo first; echo 'no such channel' >&2; exit 3"), "exit code 3: no such channel"),
        (("sh", "-c", "exit 3"), "exit code 3: no output"),
        (("/no/program",), "No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_program_is_said(command: tuple[str, ...], problem: str) -> None:
    assert CommandChannel(command).send(NOTICE) == problem


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    channel = CommandChannel(("sh", "-c", script), limit_s=0.5)
    assert channel.send(NOTICE) == "ended after 0.5 s"
    pid, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 5.0
    while (child := find_process(pid)) is not None and child.alive:
        assert time.monotonic() < deadline, "its child lives on"
        time.sleep(0.01)


def test_its_name_is_the_program_alone() -> None:
    assert CommandChannel(("/usr/bin/post", "--token", "s-1")).name == "command post"


Serve = Callable[..., str]


class Server(ThreadingHTTPServer):
    """Answers by its plan, the last answer for ever; keeps what it was sent."""

    plan: tuple[int, ...] = (200,)
    delay_s = 0.0
    got: list[tuple[str, str | None, dict[str, Any]]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/s-1"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.server.plan[min(len(self.server.got), len(self.server.plan) - 1)]
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
        time.sleep(self.server.delay_s)
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.got = []
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def webhook(server: Server, try_s: float = 3.0) -> WebhookChannel:
    return WebhookChannel(server.url, try_s=try_s, first_pause_s=0.01)


def test_a_webhook_is_posted_the_notice(server: Server) -> None:
    assert webhook(server).send(NOTICE) == ""
    assert server.got == [("/services/s-1", "application/json", json.loads(NOTICE.to_json()))]


@pytest.mark.parametrize(
    ("plan", "posts", "problem"),
    [
        ((503, 429, 204), 3, ""),
        ((500,), TRIES, "HTTP 500 Internal Server Error"),
        ((404,), 1, "HTTP 404 Not Found"),
        ((302,), 1, "HTTP 302 Found"),
    ],
)
def test_only_what_may_pass_is_tried_again(
    server: Server, plan: tuple[int, ...], posts: int, problem: str
) -> None:
    server.plan = plan
    assert webhook(server).send(NOTICE) == problem
    assert len(server.got) == posts


def test_a_server_that_does_not_answer_is_given_up(server: Server) -> None:
    server.delay_s = 0.3
    assert webhook(server, try_s=0.05).send(NOTICE) == "TimeoutError"
    assert len(server.got) == TRIES


def test_nobody_listens(server: Server) -> None:
    url = server.url
    server.shutdown()
    server.server_close()
    channel = WebhookChannel(url, first_pause_s=0.01)
    assert "Connection refused" in channel.send(NOTICE)
    assert channel.name == "webhook at 127.0.0.1"


def test_what_is_said_of_a_webhook_never_holds_its_path(server: Server) -> None:
    channel = WebhookChannel(f"{server.url} \x7f", first_pause_s=0.01)
    problem = channel.send(NOTICE)
    assert problem
    assert "s-1" not in problem + channel.name
