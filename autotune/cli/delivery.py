"""Carries a run's notices to a command and a webhook, beside the run: it neither waits nor fails by them."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from autotune.cli.channels import Channel, CommandChannel, WebhookChannel
from autotune.clock import Clock, SystemClock
from autotune.controller.notices import Notice
from autotune.errors import Fault, JobFileError
from autotune.job.model import Job
from autotune.job.outside import WEBHOOK_URL, NotifySection
from autotune.job.paths import JobPaths

CLOSE_S = 5.0
"""What the end of the command waits for deliveries that are still on their way, all together."""


class Messenger:
    """The notifier of a run: a queue and a thread for each channel, so that notices stay in their order."""

    def __init__(
        self,
        channels: Sequence[Channel],
        *,
        events: Sequence[str],
        say: Callable[[str], None],
        log: Path,
        clock: Clock,
    ) -> None:
        self._events = frozenset(events)
        self._say = say
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: list[tuple[Channel, queue.SimpleQueue[Notice | None], threading.Thread]] = []
        for channel in channels:
            line: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
            thread = threading.Thread(target=self._deliver, args=(channel, line), daemon=True)
            thread.start()
            self._lines.append((channel, line, thread))

    def tell(self, notice: Notice) -> None:
        """See `Notifier`."""
        if notice.event in self._events:
            for _, line, _ in self._lines:
                line.put(notice)

    def close(self, limit_s: float = CLOSE_S) -> None:
        """Waits for what is on its way, but no longer than that; a program that runs is left running."""
        deadline = time.monotonic() + limit_s
        for _, line, _ in self._lines:
            line.put(None)
        for channel, _, thread in self._lines:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._say(f"{channel.name}: not waited for any longer than {limit_s:g} s")

    def _deliver(self, channel: Channel, line: queue.SimpleQueue[Notice | None]) -> None:
        while (notice := line.get()) is not None:
            try:
                problem = channel.send(notice)
            except Exception as error:  # nobody else would tell, and the next notice is waiting
                problem = type(error).__name__
            self._note(channel, notice, problem)
            if problem:
                self._say(f"{channel.name} was not told of {notice.event}: {problem}")

    def _note(self, channel: Channel, notice: Notice, problem: str) -> None:
        """One line in the log; a log that cannot be written is no reason to stop telling."""
        entry = {
            "at_utc": self._clock.utc_now().isoformat(timespec="seconds"),
            "event": notice.event,
            "stage": notice.stage,
            "outcome": notice.outcome,
            "channel": channel.name,
            "problem": problem,
        }
        with self._lock, suppress(OSError):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")


@contextmanager
def delivering(job: Job, say: Callable[[str], None]) -> Iterator[Messenger]:
    """The messenger of a job's `notify` section; at the end what is on its way has `CLOSE_S`.

    Raises:
        JobFileError: The command is no program, or the webhook's variable holds no URL.
    """
    messenger = Messenger(
        channels_of(job.notify, f"job {job.name}", os.environ),
        events=job.notify.events,
        say=say,
        log=JobPaths(Path(job.storage.results), job.name).notices,
        clock=SystemClock(),
    )
    try:
        yield messenger
    finally:
        messenger.close()


def channels_of(section: NotifySection, where: str, environment: Mapping[str, str]) -> tuple[Channel, ...]:
    """Who is told.

    Raises:
        JobFileError: All that is wrong with them.
    """
    channels: list[Channel] = []
    faults: list[Fault] = []
    if section.command is not None:
        if shutil.which(section.command[0], path=environment.get("PATH")) is None:
            faults.append(
                Fault(
                    where=where,
                    key="notify.command",
                    found=f"no program {section.command[0]}",
                    allowed="a program on PATH, or a path to one, with its arguments",
                    next_step="correct it, or make it executable",
                )
            )
        channels.append(CommandChannel(section.command))
    if section.webhook is not None:
        url, fault = _webhook_url(section.webhook.get_secret_value(), where, environment)
        faults += [fault] if fault else []
        channels.append(WebhookChannel(url))
    if faults:
        raise JobFileError(faults)
    return tuple(channels)


def _webhook_url(given: str, where: str, environment: Mapping[str, str]) -> tuple[str, Fault | None]:
    """The URL itself; the fault where the variable that should hold it does not."""
    if not given.startswith("$"):
        return given, None
    name = given.strip("${}")
    url = environment.get(name, "").strip()
    if re.fullmatch(WEBHOOK_URL, url):
        return url, None
    fault = Fault(
        where=where,
        key="notify.webhook",
        found=f"the variable {name} with no URL in it" if url else f"no variable {name}",
        allowed="http(s)://HOST/...",
        next_step=f"`export {name}=https://...` before the run",
    )
    return "", fault
