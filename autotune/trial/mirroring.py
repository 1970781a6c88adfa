"""What a trial needs so that the user's own trackers show it: verl's keys, variables, what to refuse. Pure.

verl reads `trainer.logger`, `.project_name`, `.experiment_name` when a run begins, and each backend its own
variables (verl 0.9.1 utils/tracking.py:63-167).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import Fault
from autotune.job.secrets import secrets_of

if TYPE_CHECKING:  # the supervisor imports this file, and has to start in a tenth of a second
    from autotune.job.model import Job
    from autotune.job.paths import AttemptPaths
    from autotune.records import Value

OWN_LOGGERS = ("console", "file")
"""Those that the trial itself is read from."""
ONE_RUN = frozenset({"WANDB_RUN_ID", "WANDB_RESUME", "MLFLOW_RUN_ID"})
"""Would make one run of all attempts: MLflow's is set by platforms, for the job that autotune itself is."""
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "tensorboard": (),
    "wandb": ("WANDB_",),
    "mlflow": ("MLFLOW_", "DATABRICKS_"),
}
"""How the names of each tracker's own variables begin."""
_LOGGED_IN = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
_WANDB_LOCAL_MODES = ("offline", "dryrun", "disabled")


def mirror_overrides(job: Job, paths: AttemptPaths) -> dict[str, Value]:
    """What verl is told for one attempt: a run of its own in each tracker. None of it is exported."""
    if not job.mirror.loggers:
        return {}
    return {
        "trainer.logger": [*OWN_LOGGERS, *job.mirror.loggers],
        "trainer.project_name": job.mirror.project or job.name,
        "trainer.experiment_name": f"{job.mirror.experiment or job.name}/{paths.root.name}",
    }


def mirror_words(job: Job, attempts: Path) -> str | None:
    """Where the trials can be seen besides, for people; None without a mirror."""
    places = {
        "tensorboard": f"tensorboard --logdir {attempts}",
        "wandb": f"W&B project {job.mirror.project or job.name}",
        "mlflow": f"MLflow experiment {job.mirror.project or job.name}",
    }
    shown = [places[name] for name in job.mirror.loggers]
    return f"trials are mirrored: {', '.join(shown)}" if shown else None


def tracker_defaults(mirrors: Collection[str], job_folder: Path) -> dict[str, str]:
    """Variables that the user's own win over: files beside the job's, and no long waits for a server."""
    defaults: dict[str, str] = {}
    if "wandb" in mirrors:
        defaults["WANDB_DIR"] = str(job_folder)
        defaults["WANDB_INIT_TIMEOUT"] = "30"  # its own 90 s would be paid by each trial without a network
    if "mlflow" in mirrors:
        defaults["MLFLOW_TRACKING_URI"] = f"sqlite:///{job_folder}/mlflow.db"
        # It sends each step's metrics while the trial waits; its own defaults are 120 s, seven times.
        defaults |= {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    return defaults


def handed_over(job: Job, outer: Mapping[str, str]) -> dict[str, str]:
    """Variables that reach a trial in memory alone, on whichever node it runs.

    The trackers' ones out of `outer`, this process's environment, and the job's secrets over them.
    """
    begins = tuple(begin for name in job.mirror.loggers for begin in _VARIABLES[name])
    trackers = {name: value for name, value in outer.items() if begins and name.startswith(begins)}
    return {**trackers, **secrets_of(job.verl.environment)}


def mirror_faults(
    job: Job, missing: Mapping[str, str], environment: Mapping[str, str], home: Path
) -> list[Fault]:
    """What keeps the job's trackers from being opened, before anything is launched.

    Args:
        job: The job.
        missing: Why verl's environment cannot open a logger, by its name (`VerlValidator.missing_loggers`).
        environment: Of the trials.
        home: The user's home folder, where W&B keeps a login.
    """
    at = {"where": f"job {job.name}", "key": "mirror.loggers"}
    usable = [name for name in _VARIABLES if name not in missing]
    faults = [
        Fault(
            **at,
            found=f"{name}: {missing[name]}",
            allowed=f"{', '.join(usable) or 'none'} as verl's environment is now",
            next_step=f"`pip install {name}` there, or take it out of mirror.loggers",
        )
        for name in job.mirror.loggers
        if name in missing
    ]
    if "wandb" in job.mirror.loggers and "wandb" not in missing and not _has_wandb_login(environment, home):
        faults.append(
            Fault(
                **at,
                found="wandb, without a login: no WANDB_API_KEY, and none kept in the home folder",
                allowed="a login, or WANDB_MODE=offline",
                next_step="`export WANDB_API_KEY=...`, `wandb login`, or `export WANDB_MODE=offline`",
            )
        )
    return faults


def _has_wandb_login(environment: Mapping[str, str], home: Path) -> bool:
    """False only where there is none in any of the places that W&B looks into."""
    if environment.get("WANDB_MODE", "").lower() in _WANDB_LOCAL_MODES:
        return True
    if any(environment.get(name) for name in _LOGGED_IN):
        return True
    folder = Path(environment.get("WANDB_CONFIG_DIR") or home / ".config" / "wandb")
    kept = (Path(environment.get("NETRC") or home / ".netrc"), home / "_netrc", folder / "settings")
    return any(path.is_file() for path in kept)
