"""Headless chromium by its own debugging pipe: what is on a page, what it asked for, how it looks.

No driver package: chromium reads commands from file descriptor 3 and answers on 4, JSON ended by NUL.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
ANSWER_WITHIN_S = 60.0


class Page:
    """One tab. `requests` and `complaints` collect what happened on it."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._last_id = 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.events: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command of the DevTools protocol."""
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._last_id:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """The window, in CSS pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def media(self, medium: str = "screen", *, dark: bool = False) -> None:
        """What CSS media queries see."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def open(self, path: Path) -> None:
        """Loads a file and waits until it has run its scripts."""
        self.events.clear()
        self.ask("Page.navigate", url=path.absolute().as_uri())
        while "Page.loadEventFired" not in self.events:
            self._note(self._message())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression says; its promise is awaited."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        answer = self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(answer["data"])

    def _message(self) -> dict[str, Any]:
        until_s = time.monotonic() + ANSWER_WITHIN_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until_s - time.monotonic()))
            part = os.read(self._from, 1 << 20) if ready else b""
            assert part, "chromium does not answer"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        if method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A chromium with one tab; it is gone afterwards."""
    assert CHROMIUM is not None
    read_commands, write_commands = os.pipe()
    read_answers, write_answers = os.pipe()
    # A shell moves the two ends to where chromium looks for them.
    moved = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    command = ["bash", "-c", moved, "chromium", CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
    child = subprocess.Popen(
        command,
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Page(write_commands, read_answers)
    finally:
        child.terminate()
        child.wait(30)
        os.close(write_commands)
        os.close(read_answers)
