"""What one attempt is started with: written to the attempt's folder, read by its supervisor."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from autotune.verl_plugin.warm.wire import SESSION_FOLDER

SESSION_ENTRY = "autotune.verl_plugin.warm.session"
"""Module that takes the place of verl's own entry in a warm session."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
"""Text that Hydra's override grammar takes without quotes."""


@dataclass(frozen=True, kw_only=True)
class CpuShare:
    """What a trial without GPUs runs on; the job's `resources.cpu`, resolved for this attempt."""

    cap_gb: float | None = None
    """What one training worker may allocate beyond its size at start. None: no cap."""
    replay_poll_s: float | None = None
    """Replaces verl's 2 s poll of its replay buffer. None: verl's own."""
    ray_cpus: int = 32
    """Logical CPUs of the private Ray; verl hangs in silence with too few."""
    threads: int = 2
    """OMP threads of each worker."""
    kv_cache_gb: int = 1
    """VLLM_CPU_KVCACHE_SPACE."""


@dataclass(frozen=True, kw_only=True)
class SessionPlace:
    """Where an attempt runs as one of several candidates of one verl process."""

    id: str
    folder: str
    """Absolute path of the session's folder."""
    number: int
    """Candidates that the session was given before."""
    entry: str = SESSION_ENTRY
    """Module that serves the session."""


@dataclass(frozen=True, kw_only=True)
class AttemptRequest:
    """Everything that a runner needs to start verl once."""

    attempt_id: str
    """Short, unique; also the mark by which the attempt's processes are known."""
    folder: str
    """Absolute path of the attempt's folder, on the node that runs it."""
    working_directory: str
    """Where verl is started: the user's own working directory."""
    python: str
    """Interpreter of the verl environment."""
    entry: str = "verl.trainer.main_ppo"
    """Module started with `python -m`."""
    config_text: str
    """The resolved verl configuration, YAML."""
    extra_arguments: tuple[str, ...] = ()
    """Further Hydra overrides, before the ones that keep trials apart."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The job's extra environment variables; its secrets come by the runner's own environment."""
    gpus: int = 1
    """GPUs held; on CPU the data-parallel ranks."""
    device: Literal["gpu", "cpu"] = "gpu"
    cpu: CpuShare = CpuShare()
    """Read only where `device` is `cpu`."""
    load_monitor: bool = False
    """Whether the plugin writes what each rank had to do."""
    mirrors: tuple[str, ...] = ()
    """Trackers of the user that verl logs to besides; see `job.outside.MirrorSection`."""
    wall_limit_s: float | None = None
    """The supervisor's own limit, for when nobody asks. None: no limit."""
    grace_s: float = 5.0
    """From SIGTERM to SIGKILL; verl and Ray need about 2 s."""
    session_key: str | None = None
    """Attempts of one key may share a warm session; None: only a process of its own will do."""
    session: SessionPlace | None = None
    """Set by the launcher; None: a process of its own."""

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AttemptRequest:
        """The request that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["cpu"] = CpuShare(**values["cpu"])
        if values.get("session") is not None:
            values["session"] = SessionPlace(**values["session"])
        values["extra_arguments"] = tuple(values["extra_arguments"])
        values["mirrors"] = tuple(values["mirrors"])
        return cls(**values)


def session_request(request: AttemptRequest) -> AttemptRequest:
    """What starts the warm session in which `request` is the first candidate."""
    place = request.session
    assert place is not None
    return replace(
        request,
        attempt_id=place.id,
        folder=place.folder,
        entry=place.entry,
        environment={**request.environment, SESSION_FOLDER: place.folder},
        wall_limit_s=None,  # of a candidate, not of all of them
        session_key=None,
        session=None,
    )


def launch_arguments(request: AttemptRequest, temp_dir: str) -> list[str]:
    """The command line of verl: the attempt's `config.yaml` plus what keeps trials apart.

    The overrides use `++`, since the user's configuration may already hold the key.
    """
    ray_init = {
        "address": "local",
        "_temp_dir": f"{temp_dir}/ray",
        "include_dashboard": "False",
        "num_gpus": str(request.gpus),
    }
    if request.device == "cpu":
        ray_init["num_cpus"] = str(request.cpu.ray_cpus)
    return [
        request.python,
        "-m",
        request.entry,
        "--config-path",
        request.folder,
        "--config-name",
        "config",
        *request.extra_arguments,
        f"hydra.run.dir={_quoted(request.folder + '/hydra')}",
        *(f"++ray_kwargs.ray_init.{key}={_quoted(value)}" for key, value in ray_init.items()),
    ]


def _quoted(text: str) -> str:
    """`text` as one value of Hydra's override grammar."""
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
