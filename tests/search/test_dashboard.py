"""optuna-dashboard over a snapshot: loopback, read-only, renewed; and read in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import ResourceError
from autotune.search.dashboard import LOOPBACK, serve
from autotune.store.snapshot import snapshot
from tests.cli.builders import fill, job_sections, write_inputs, write_job

pytestmark = pytest.mark.timeout(240)
STUDIES = ["played 1 survive", "played 2 speed", "played 3 quality"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def climbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory where a job was climbed."""
    folder = tmp_path_factory.mktemp("climbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
        fill(write_job(folder / "played.yaml", job_sections()))
    return folder


@pytest.fixture(scope="module")
def served(climbed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The snapshot that is served, and the port."""
    copy = tmp_path_factory.mktemp("served") / "snapshot.db"
    snapshot(f"sqlite:///{climbed}/results/played.db", copy)
    addresses: list[str] = []
    announced = threading.Event()

    def announce(address: str) -> None:
        addresses.append(address)
        announced.set()

    threading.Thread(
        target=serve, args=(copy,), kwargs={"port": 0, "announce": announce}, daemon=True
    ).start()
    assert announced.wait(120)
    match = re.fullmatch(rf"http://{re.escape(LOOPBACK)}:(\d+)/dashboard/", addresses[0])
    assert match is not None
    return copy, int(match[1])


def ask(port: int, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    try:
        body = None if method == "GET" else b"{}"
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def asked_json(port: int, path: str) -> Any:
    status, body = ask(port, "GET", path)
    assert status == 200
    return json.loads(body)


def test_the_three_studies_in_their_order(served: tuple[Path, int]) -> None:
    _, port = served
    studies = asked_json(port, "/api/studies")["study_summaries"]
    assert [study["study_name"] for study in studies] == [
        "played 1 survive",
        "played 2 speed",
        "played 3 quality",
    ]
    assert ask(port, "GET", "/dashboard/")[0] == 200


def test_a_trials_failure_constraints_curve_and_note(served: tuple[Path, int]) -> None:
    _, port = served
    survive = asked_json(port, "/api/studies/1?after=0")
    first = survive["trials"][0]
    attributes = {one["key"]: one["value"] for one in first["user_attrs"]}
    assert first["state"] == "Pruned"
    assert attributes["kind"] == '"oom_gpu_actor_update"' or attributes["kind"] == "oom_gpu_actor_update"
    assert "update_actor" in attributes["phase"]
    assert "`oom_gpu_actor_update` in `update_actor`" in first["note"]["body"]
    best = next(trial for trial in survive["trials"] if trial["state"] == "Complete")
    assert best["values"]
    quality = asked_json(port, "/api/studies/3?after=0")["trials"][0]
    assert [point["step"] for point in quality["intermediate_values"]] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/studies"),
        ("DELETE", "/api/studies/1"),
        ("PUT", "/api/studies/1/note"),
        ("POST", "/api/trials/1/tell"),
        ("PUT", "/api/studies/1/1/note"),
        ("PATCH", "/api/studies/1"),
    ],
)
def test_nothing_can_be_written(served: tuple[Path, int], method: str, path: str) -> None:
    copy, port = served
    before = copy.read_bytes()
    status, body = ask(port, method, path)
    assert status == 405
    assert b"read-only" in body
    assert copy.read_bytes() == before


def test_only_this_machine_can_ask(served: tuple[Path, int]) -> None:
    _, port = served
    with socket.socket() as probe, pytest.raises(OSError, match="refused"):
        probe.connect(("127.0.0.2", port))  # another of this machine's own addresses


def test_a_new_snapshot_is_seen(climbed: Path, served: tuple[Path, int], tmp_path: Path) -> None:
    copy, port = served
    changed = tmp_path / "changed.db"
    snapshot(f"sqlite:///{copy}", changed)
    connection = sqlite3.connect(changed)
    with connection:
        connection.execute("UPDATE studies SET study_name = 'played 1 renewed' WHERE study_id = 1")
    connection.close()
    snapshot(f"sqlite:///{changed}", copy)
    names = [study["study_name"] for study in asked_json(port, "/api/studies")["study_summaries"]]
    snapshot(f"sqlite:///{climbed}/results/played.db", copy)
    assert names[0] == "played 1 renewed"


def test_a_port_that_is_taken(served: tuple[Path, int]) -> None:
    copy, port = served
    with pytest.raises(ResourceError, match=str(port)) as caught:
        serve(copy, port=port, announce=pytest.fail)
    assert "--port" in caught.value.faults[0].next_step


# The command, in a browser


def _hears_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so does what that starts: these tests, say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def address(climbed: Path) -> Iterator[str]:
    """Where `autotune dashboard` serves the job."""
    command = [sys.executable, "-u", "-m", "autotune", "dashboard", "--job", "played", "--port", "0"]
    child = subprocess.Popen(
        command, cwd=climbed, stdout=subprocess.PIPE, text=True, preexec_fn=_hears_ctrl_c
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line.endswith("(Ctrl-C ends it)\n")
    yield line.split()[0]
    child.send_signal(signal.SIGINT)
    assert child.wait(120) == 0


def page_of(address: str, profile: Path, *arguments: str) -> str:
    """The page's DOM once its requests are answered."""
    assert CHROMIUM is not None
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--window-size=1500,1800",
        "--virtual-time-budget=20000",
    ]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={profile}", *arguments, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "HOME": str(profile)},
    )
    return done.stdout


@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_trials_failure_kind_is_read_from_the_page(address: str, tmp_path: Path) -> None:
    studies = page_of(address, tmp_path / "profile", "--dump-dom")
    for name in STUDIES:
        assert name in studies
    trial = page_of(f"{address}studies/1/trials?numbers=0", tmp_path / "profile", "--dump-dom")
    assert "oom_gpu_actor_update" in trial
    assert "update_actor" in trial
