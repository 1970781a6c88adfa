"""Puts one job's services together, cheapest check first, and takes them apart again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from autotune import __version__
from autotune.clock import SystemClock
from autotune.controller.ladder_run import carried_overrides, stage_space
from autotune.controller.loop import Controller
from autotune.controller.notices import Notifier
from autotune.controller.progress import Watcher
from autotune.controller.services import Services
from autotune.errors import Fault, InputFileError, ResourceError, VerlConfigError
from autotune.forecast.hardware import gpu_inventory
from autotune.job.loading import job_hash
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.job.resolved_space import ResolvedSpace
from autotune.records import StageName, Value
from autotune.store.lock import ControllerLock
from autotune.store.store import Store
from autotune.trial.environment import device_environment
from autotune.trial.launcher import RayLauncher
from autotune.trial.mirroring import handed_over, mirror_faults, mirror_words
from autotune.trial.preparation import Preparer
from autotune.verl_config.inputs import input_faults
from autotune.verl_config.validation import VerlValidator


def database_url(job: Job) -> str:
    """The job's SQLAlchemy URL."""
    paths = JobPaths(Path(job.storage.results), job.name)
    return job.storage.url or f"sqlite:///{paths.database}"


@contextmanager
def open_preparer(job: Job) -> Iterator[Preparer]:
    """What resolves and checks configurations; needs neither GPU nor database."""
    python = job.resources.python or sys.executable
    with VerlValidator(python, device_environment(job.resources)) as validator:
        yield Preparer(job, validator=validator, working_directory=Path.cwd(), python=python)


@contextmanager
def open_services(
    job: Job, stages: Sequence[StageName], watcher: Watcher, notifier: Notifier
) -> Iterator[tuple[Services, Controller]]:
    """The job's services for climbing `stages`, held by this process alone.

    Raises:
        InputError: Inputs, devices, results folder or database are not what the job needs, or a stage
            is asked for too early; a second controller holds the job. Nothing was launched or written then.
    """
    paths = JobPaths(Path(job.storage.results), job.name)
    url, identity = database_url(job), {"job_name": job.name, "job_hash": job_hash(job)}
    with ExitStack() as stack:
        carried_overrides(job, stages[0], Store.check(url, **identity))
        preparer = stack.enter_context(open_preparer(job))
        check_configuration(job, stages, preparer)
        check_inputs(job, preparer)
        check_mirror(job, preparer)
        check_devices(job)
        cold_reason = preparer.cold_reason(preparer.resolve({}))
        if cold_reason is not None:
            watcher.say(f"every trial starts a verl process of its own: {cold_reason}")
        mirrored = mirror_words(job, paths.attempts)
        if mirrored is not None:
            watcher.say(mirrored)
        stack.enter_context(ControllerLock(paths.lock))
        # The database comes last: whatever is refused before leaves none behind.
        launcher = RayLauncher(job.resources, handed_over(job, os.environ))
        stack.callback(launcher.close)
        store = stack.enter_context(Store.open(url, version=__version__, **identity))
        clock = SystemClock()
        services = Services(
            job=job,
            store=store,
            launcher=launcher,
            preparer=preparer,
            paths=paths,
            clock=clock,
            watcher=watcher,
            notifier=notifier,
        )
        yield services, Controller(job, store=store, launcher=launcher, clock=clock, watcher=watcher)


def check_configuration(
    job: Job, stages: Sequence[StageName], preparer: Preparer
) -> dict[StageName, ResolvedSpace]:
    """The stages' spaces over the job's own configuration, once every key in them is known to be verl's.

    Raises:
        VerlConfigError: All keys and values that verl does not take, of the job and of each stage.
        JobFileError: A space has no values in this job.
    """
    preparer.resolve({})
    spaces: dict[StageName, ResolvedSpace] = {}
    faults: list[Fault] = []
    for name in stages:
        section = job.stage(name)
        if section is None:  # the finish searches nothing
            continue
        spaces[name] = stage_space(job, section, preparer, {})
        for part, settings in (
            ("overrides", section.overrides),
            ("search_space", _one_of_each(spaces[name])),
        ):
            try:
                preparer.resolve(settings)
            except VerlConfigError as error:
                faults += [replace(fault, where=f"stages.{name.value}.{part}") for fault in error.faults]
    if faults:
        raise VerlConfigError(faults)
    return spaces


def _one_of_each(space: ResolvedSpace) -> dict[str, Value]:
    """A value for every key that the space may ever set."""
    settings: dict[str, Value] = {}
    for parameter in space.parameters:
        value = parameter.safest if parameter.current is None else parameter.current
        settings.update(dict.fromkeys((parameter.key, *parameter.also), value))
    return settings


def check_inputs(job: Job, preparer: Preparer) -> None:
    """Refuses a job whose configuration, model, data or reward file cannot be used.

    Raises:
        InputFileError: Everything that is wrong with the files, at once.
    """
    faults = input_faults(
        preparer.resolve({}).flat,
        f"job {job.name}",
        python=job.resources.python,
        environment={**device_environment(job.resources), **job.verl.environment},
    )
    if faults:
        raise InputFileError(faults)


def check_mirror(job: Job, preparer: Preparer) -> None:
    """Refuses a job whose trackers verl could not open.

    Raises:
        ResourceError: Every logger that is missing in verl's environment, or without a login.
    """
    if not job.mirror.loggers:
        return
    environment = {**os.environ, **job.verl.environment}
    faults = mirror_faults(job, preparer.missing_loggers(), environment, Path.home())
    if faults:
        raise ResourceError(faults)


def check_devices(job: Job) -> None:
    """Refuses a GPU job on a machine without enough GPUs, before Ray is started.

    Raises:
        ResourceError: Naming what was found. A job that joins a cluster is checked there.
    """
    resources = job.resources
    if resources.device == "cpu" or resources.ray_address or os.environ.get("RAY_ADDRESS"):
        return
    found = gpu_inventory()
    if len(found) < resources.gpus_per_trial:
        raise ResourceError(
            Fault(
                where=f"job {job.name}",
                key="resources.gpus_per_trial",
                found=f"{resources.gpus_per_trial} wanted, {len(found)} GPUs on this machine",
                allowed="at most this machine's GPUs, or a cluster's by resources.ray_address",
                next_step="lower it, name a cluster, or set resources.device: cpu for a tiny model",
            )
        )
