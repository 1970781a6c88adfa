"""The environment that a trial's verl is started in. Pure: the node's own environment comes in as a value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.job.paths import AttemptPaths
from autotune.trial.mirroring import ONE_RUN, tracker_defaults
from autotune.trial.request import AttemptRequest
from autotune.verl_plugin.environment import CPU_ENVIRONMENT, PLUGIN_MODULE

if TYPE_CHECKING:  # the supervisor imports this file, and has to start in a tenth of a second
    from autotune.job.model import ResourceSection

KEY_VARIABLE = "AUTOTUNE_TRIAL_KEY"
"""Every process of an attempt inherits it; strays are known by it even when they were adopted by init."""

_CPU_SWITCHES = {"AUTOTUNE_CPU": "1", "VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}
"""The plugin's CPU platform; verl's FSDP engine is registered for the device name `cuda`."""


def trial_environment(request: AttemptRequest, outer: Mapping[str, str], temp_dir: str) -> dict[str, str]:
    """The variables of the verl process.

    Args:
        request: The attempt.
        outer: The runner's environment, with CUDA_VISIBLE_DEVICES as the outer Ray has set it.
        temp_dir: The attempt's private temporary folder.

    Returns:
        The node's environment without the outer Ray, the job's variables over it, ours over both.
    """
    kept = {name: value for name, value in outer.items() if not name.startswith("RAY_")}
    defaults = _cpu_settings(request.cpu.threads, request.cpu.kv_cache_gb) if request.device == "cpu" else {}
    defaults["TORCHINDUCTOR_CACHE_DIR"] = _inductor_cache(outer)
    defaults |= tracker_defaults(request.mirrors, Path(request.folder).parent.parent)
    made = {
        **defaults,
        **kept,
        "RAY_USAGE_STATS_ENABLED": "0",
        # The private Ray listens for its own trial only; token files would be shared between trials.
        "RAY_AUTH_MODE": "disabled",
        # Ray's default of 15 lets any other process of the machine slow what is measured.
        "RAY_worker_niceness": "0",
        "HYDRA_FULL_ERROR": "1",
        "PYTHONUNBUFFERED": "1",
        **request.environment,
        **_own(request, outer, temp_dir),
    }
    return {name: value for name, value in made.items() if not request.mirrors or name not in ONE_RUN}


def device_environment(resources: ResourceSection) -> dict[str, str]:
    """What verl needs in its environment on the job's kind of device, whoever starts it.

    Empty on GPUs. Without the memory cap, which belongs to trials: an exported run is not capped.
    """
    if resources.device == "gpu":
        return {}
    cpu = resources.cpu
    return {**_cpu_settings(cpu.threads, cpu.kv_cache_gb), **_CPU_SWITCHES}


def plugin_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What makes verl load the plugin, beside the external modules that `environment` already names."""
    return {"VERL_USE_EXTERNAL_MODULES": _external_modules(environment)}


def _own(request: AttemptRequest, outer: Mapping[str, str], temp_dir: str) -> dict[str, str]:
    """What nobody may change: where the attempt writes, and what the plugin reads."""
    paths = AttemptPaths(Path(request.folder))
    own = {
        KEY_VARIABLE: request.attempt_id,
        "AUTOTUNE_PHASES_PATH": str(paths.phases),
        "VERL_FILE_LOGGER_PATH": str(paths.metrics),
        "TENSORBOARD_DIR": str(paths.tensorboard),
        "VERL_USE_EXTERNAL_MODULES": _external_modules({**outer, **request.environment}),
        "TMPDIR": temp_dir,
        # setproctitle (Ray, vLLM) then leaves /proc/<pid>/environ readable: see KEY_VARIABLE.
        "SPT_NOENV": "1",
    }
    if request.mirrors:
        own["AUTOTUNE_MIRRORS"] = ",".join(request.mirrors)
    if request.load_monitor:
        own["AUTOTUNE_RANK_LOAD_PATH"] = str(paths.rank_load)
    if request.device == "cpu":
        own |= {**_CPU_SWITCHES, "AUTOTUNE_MEMORY_CAP_DIR": str(paths.memory_caps)}
        if request.cpu.cap_gb is not None:
            own["AUTOTUNE_CPU_MEMORY_CAP_GB"] = str(request.cpu.cap_gb)
        if request.cpu.replay_poll_s is not None:
            own["AUTOTUNE_REPLAY_POLL_S"] = str(request.cpu.replay_poll_s)
    return own


def _cpu_settings(threads: int, kv_cache_gb: int) -> dict[str, str]:
    """CPU settings that the user's own environment may override."""
    fixed = {name: value for name, value in CPU_ENVIRONMENT.items() if name != "HF_HUB_OFFLINE"}
    return {
        **fixed,  # whether models may be downloaded stays the user's choice
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gb),
    }


def _external_modules(environment: Mapping[str, str]) -> str:
    """The user's external modules, then the plugin."""
    modules = [name for name in environment.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name]
    return ",".join([*(name for name in modules if name != PLUGIN_MODULE), PLUGIN_MODULE])


def _inductor_cache(outer: Mapping[str, str]) -> str:
    """Where torch keeps compiled kernels by default, which a private TMPDIR would empty for each trial."""
    return f"{outer.get('TMPDIR', '/tmp')}/torchinductor_{outer.get('USER', 'autotune')}"
