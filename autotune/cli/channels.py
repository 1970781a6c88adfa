"""The two ways out for a run's notices: a program that is started, a URL that is posted to."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from autotune.controller.notices import Notice

COMMAND_S = 30.0
"""A command that takes longer is ended."""
TRY_S = 3.0
TRIES = 3
"""Of the webhook, each with its own time limit."""
FIRST_PAUSE_S = 0.5


class Channel(Protocol):
    """One way of telling."""

    @property
    def name(self) -> str:
        """For people; holds no secret."""
        ...

    def send(self, notice: Notice) -> str:
        """Delivers it; returns why it could not be, empty where it was."""
        ...


@dataclass(frozen=True)
class CommandChannel:
    """Runs a program for each notice: JSON on standard input, the gist in its environment."""

    command: Sequence[str]
    limit_s: float = COMMAND_S

    @property
    def name(self) -> str:
        """The program without its arguments."""
        return f"command {Path(self.command[0]).name}"

    def send(self, notice: Notice) -> str:
        """See `Channel`. What the program prints is not shown, but for its last line where it fails."""
        # Files in place of pipes: nothing waits for a program that does not read, or leaves a child behind.
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as printed:
            told.write(notice.to_json().encode())
            told.seek(0)
            try:
                process = subprocess.Popen(
                    self.command,
                    stdin=told,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **variables(notice)},
                    start_new_session=True,  # a Ctrl-C at the terminal is for the run alone
                )
                code = process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"ended after {self.limit_s:g} s"
            except OSError as error:
                return error.strerror or type(error).__name__
            printed.seek(0)
            lines = printed.read().decode(errors="replace").split("\n")
        last = next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no output")
        return "" if code == 0 else f"exit code {code}: {last}"


@dataclass(frozen=True)
class WebhookChannel:
    """Posts each notice as JSON; a few short tries where the network or the server is at fault."""

    url: str
    try_s: float = TRY_S
    first_pause_s: float = FIRST_PAUSE_S

    @property
    def name(self) -> str:
        """Only the host: the path is often the secret."""
        return f"webhook at {urlsplit(self.url).hostname}"

    def send(self, notice: Notice) -> str:
        """See `Channel`."""
        retrying = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(multiplier=self.first_pause_s),
            retry=retry_if_exception(may_pass),
            reraise=True,
        )
        try:
            retrying(self._post, notice.to_json().encode())
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code} {error.reason}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except (OSError, HTTPException, ValueError) as error:  # their texts may hold the URL
            return type(error).__name__
        return ""

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "verl-autotune"}
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=self.try_s):
            pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET, without its notice."""

    def redirect_request(self, *_: Any) -> None:
        return None


def may_pass(error: BaseException) -> bool:
    """Whether a try a little later may succeed: no answer, too many requests, the server's own fault."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code == 429 or error.code >= 500
    return isinstance(error, (OSError, HTTPException))


def variables(notice: Notice) -> dict[str, str]:
    """What a command finds in its environment, for those that do not read JSON."""
    return {
        "AUTOTUNE_NOTICE_EVENT": notice.event,
        "AUTOTUNE_NOTICE_JOB": notice.job,
        "AUTOTUNE_NOTICE_STAGE": notice.stage or "",
        "AUTOTUNE_NOTICE_OUTCOME": notice.outcome,
        "AUTOTUNE_NOTICE_TEXT": notice.text,
        "AUTOTUNE_NOTICE_EXIT_CODE": "" if notice.exit_code is None else str(notice.exit_code),
    }
