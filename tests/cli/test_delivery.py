"""Notices reach their channels beside the run, in order; what fails is said and logged."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.channels import CommandChannel, WebhookChannel
from autotune.cli.delivery import Messenger, channels_of, delivering
from autotune.clock import ManualClock
from autotune.controller.notices import Notice
from autotune.errors import JobFileError
from autotune.job.outside import NotifySection
from tests.cli.builders import listing, refused
from tests.controller.conftest import job_of

STAGE = Notice(event="stage_end", job="j", stage="speed", outcome="accepted", statement="fast")
END = Notice(event="finish", job="j", outcome="done", statement="all", exit_code=0)


class Played:
    """A channel that answers with `problem`, once it is let go."""

    name = "played"

    def __init__(self, problem: str | Exception = "", *, held: bool = False) -> None:
        self.problem = problem
        self.got: list[Notice] = []
        self.go = threading.Event()
        if not held:
            self.go.set()

    def send(self, notice: Notice) -> str:
        self.go.wait(10)
        self.got.append(notice)
        if isinstance(self.problem, Exception):
            raise self.problem
        return self.problem


def messenger(tmp_path: Path, *channels: Any, events: tuple[str, ...] = ("stage_end", "finish")) -> Any:
    said: list[str] = []
    log = tmp_path / "job" / "notices.jsonl"
    return Messenger(channels, events=events, say=said.append, log=log, clock=ManualClock()), said, log


def test_every_channel_gets_the_wanted_events_in_their_order(tmp_path: Path) -> None:
    channels = Played(), Played()
    one, said, log = messenger(tmp_path, *channels, events=("stage_end", "finish"))
    for notice in (STAGE, replace(STAGE, event="stop"), replace(STAGE, stage="quality"), END):
        one.tell(notice)
    one.close()
    for channel in channels:
        assert [(notice.event, notice.stage) for notice in channel.got] == [
            ("stage_end", "speed"),
            ("stage_end", "quality"),
            ("finish", None),
        ]
    assert said == []
    assert len(log.read_text().splitlines()) == 6


@pytest.mark.parametrize("problem", ["HTTP 404 Not Found", ValueError("https://hooks/s-1")])
def test_a_failure_is_said_and_logged_and_the_next_notice_goes_out(
    tmp_path: Path, problem: str | Exception
) -> None:
    channel = Played(problem)
    one, said, log = messenger(tmp_path, channel)
    one.tell(STAGE)
    one.tell(END)
    one.close()
    word = problem if isinstance(problem, str) else "ValueError"
    assert channel.got == [STAGE, END]
    assert said == [f"played was not told of {event}: {word}" for event in ("stage_end", "finish")]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["problem"] for entry in entries] == [word, word]
    assert (entries[0]["event"], entries[0]["stage"], entries[0]["channel"]) == (
        "stage_end",
        "speed",
        "played",
    )


def test_the_run_never_waits_but_a_little_at_its_end(tmp_path: Path) -> None:
    slow, quick = Played(held=True), Played()
    one, said, _ = messenger(tmp_path, slow, quick)
    one.tell(STAGE)  # returns though `slow` is held
    one.close(limit_s=0.05)
    assert said == ["played: not waited for any longer than 0.05 s"]
    assert quick.got == [STAGE]
    slow.go.set()


def test_a_log_that_cannot_be_written_is_no_reason_to_stop_telling(tmp_path: Path) -> None:
    (tmp_path / "job").touch()
    channel = Played()
    one, said, _ = messenger(tmp_path, channel)
    one.tell(END)
    one.close()
    assert (channel.got, said) == ([END], [])


def test_all_that_is_wrong_is_told_before_the_run_and_shows_no_secret() -> None:
    section = NotifySection.model_validate({"command": ["/no/program", "s-1"], "webhook": "${HOOK}"})
    for environment, found in (({}, "no variable HOOK"), ({"HOOK": "s-2"}, "HOOK with no URL in it")):
        with pytest.raises(JobFileError) as caught:
            channels_of(section, "job j", environment)
        command, webhook = caught.value.faults
        assert (command.key, command.found) == ("notify.command", "no program /no/program")
        assert webhook.key == "notify.webhook"
        assert found in webhook.found
        assert all(fault.allowed and fault.next_step for fault in caught.value.faults)
        assert "s-1" not in str(caught.value)
        assert "s-2" not in str(caught.value)


def test_a_webhook_may_stand_in_a_variable() -> None:
    section = NotifySection.model_validate({"command": ["sh"], "webhook": "$HOOK"})
    channels = channels_of(section, "job j", {"PATH": "/bin:/usr/bin", "HOOK": "https://h.example.org/s"})
    assert channels == (CommandChannel(("sh",)), WebhookChannel("https://h.example.org/s"))
    assert channels_of(NotifySection(), "job j", {}) == ()


def test_a_job_tells_through_its_own_section(tmp_path: Path) -> None:
    target = tmp_path / "told"
    notify = {"command": ["sh", "-c", f"cat >> {target}"], "events": ["finish"]}
    job = job_of(tmp_path / "results", notify=notify)
    said: list[str] = []
    with delivering(job, said.append) as one:
        one.tell(STAGE)
        one.tell(END)
    assert json.loads(target.read_text())["event"] == "finish"
    (entry,) = (tmp_path / "results" / "played" / "notices.jsonl").read_text().splitlines()
    assert json.loads(entry)["channel"] == "command sh"
    assert said == []


def test_a_run_that_could_not_tell_does_not_start(
    capsys: Any, folder: Path, job_file: Callable[..., str]
) -> None:
    name = job_file(lambda job: job.update(notify={"command": ["/no/program"]}))
    before = listing(folder)
    (fault,) = refused(capsys, "run", name)
    assert (fault["where"], fault["key"]) == ("job played", "notify.command")
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("section", "key", "found"),
    [
        ({"webhook": "hooks.example.org/s-1"}, "notify.webhook", "something else"),
        ({"events": ["start"]}, "notify.events[0]", "'start'"),
        ({"command": []}, "notify.command", "[]"),
        ({"url": "x"}, "notify.url", "the unknown key `url`"),
    ],
)
def test_a_section_with_faults(
    capsys: Any, job_file: Callable[..., str], section: dict[str, Any], key: str, found: str
) -> None:
    (fault,) = refused(capsys, "run", job_file(lambda job: job.update(notify=section)), "--dry-run")
    assert fault["key"] == key
    assert found in fault["found"]
    assert "s-1" not in str(fault)
