"""What the controller acts through: one set for the whole job."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.clock import Clock
from autotune.controller.notices import Notifier, SilentNotifier
from autotune.controller.progress import Watcher
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.store.store import Store
from autotune.trial.launcher import Launcher
from autotune.trial.preparation import Preparer


@dataclass(frozen=True, kw_only=True)
class Services:
    """What a climb acts through; one set for the whole job."""

    job: Job
    store: Store
    launcher: Launcher
    preparer: Preparer
    paths: JobPaths
    clock: Clock
    watcher: Watcher
    notifier: Notifier = field(default_factory=SilentNotifier)
