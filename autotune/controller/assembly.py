"""Puts one job's services together, cheapest check first, and takes them apart again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from autotune import __version__
from autotune.clock import SystemClock
from autotune.controller.climb import Services
from autotune.controller.loop import Controller
from autotune.controller.progress import Watcher
from autotune.errors import Fault, InputFileError, ResourceError
from autotune.forecast.hardware import gpu_inventory
from autotune.job.loading import job_hash
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.store.lock import ControllerLock
from autotune.store.store import Store
from autotune.trial.environment import device_environment
from autotune.trial.launcher import RayLauncher
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
def open_services(job: Job, watcher: Watcher) -> Iterator[tuple[Services, Controller]]:
    """The job's services, held by this process alone.

    Raises:
        InputError: Inputs, devices, results folder or database are not what the job needs; a second
            controller holds the job. Nothing was launched or written then.
    """
    paths = JobPaths(Path(job.storage.results), job.name)
    with ExitStack() as stack:
        preparer = stack.enter_context(open_preparer(job))
        check_inputs(job, preparer)
        check_devices(job)
        stack.enter_context(ControllerLock(paths.lock))
        store = stack.enter_context(
            Store.open(database_url(job), job_name=job.name, job_hash=job_hash(job), version=__version__)
        )
        launcher = RayLauncher(job.resources)
        stack.callback(launcher.close)
        clock = SystemClock()
        services = Services(
            job=job,
            store=store,
            launcher=launcher,
            preparer=preparer,
            paths=paths,
            clock=clock,
            watcher=watcher,
        )
        yield services, Controller(job, store=store, launcher=launcher, clock=clock, watcher=watcher)


def check_inputs(job: Job, preparer: Preparer) -> None:
    """Refuses a job whose configuration, model, data or reward file cannot be used.

    Raises:
        VerlConfigError: verl does not have a key.
        InputFileError: Everything that is wrong with the files, at once.
    """
    faults = input_faults(preparer.resolve({}).flat, f"job {job.name}")
    if faults:
        raise InputFileError(faults)


def check_devices(job: Job) -> None:
    """Refuses a GPU job on a machine without enough GPUs, before Ray is started.

    Raises:
        ResourceError: Naming what was found. A job that joins a cluster is checked there.
    """
    resources = job.resources
    if resources.device == "cpu" or resources.ray_address is not None:
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
