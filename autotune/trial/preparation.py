"""From a candidate's overrides to the request that launches it, or to the reason why verl would refuse it.

The configuration written here is the one that is exported later, plus what makes a run a trial
(steps, seeds, no checkpoints, a logger that can be read).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.errors import Fault, VerlConfigError
from autotune.job.model import FinishStage, Job, QualityStage, StageSection, SurviveStage
from autotune.job.paths import AttemptPaths, make_folder
from autotune.job.secrets import without_secrets
from autotune.records import AttemptRole, Overrides, Value
from autotune.trial.mirroring import OWN_LOGGERS, mirror_overrides
from autotune.trial.request import AttemptRequest, CpuShare
from autotune.verl_config.compose import ResolvedConfig, compose, verl_version
from autotune.verl_config.constraints import violations
from autotune.verl_config.extensions import extension_overrides
from autotune.verl_config.training_shape import GPUS, gpus_of
from autotune.verl_config.validation import VerlValidator
from autotune.verl_plugin.warm.live_keys import VERL_RELEASE, cold_key, cold_only

STOCK_ENTRY = "verl.trainer.main_ppo"
"""verl's own entry, which a warm session stands in for."""
_RAY_GPUS = "ray_kwargs.ray_init.num_gpus"
_KEPT = 64
"""Resolved configurations that are kept; one takes about 100 kB and a quarter of a second to make."""


@dataclass(frozen=True)
class Refusal:
    """verl would refuse the configuration; nothing was launched."""

    faults: tuple[Fault, ...]

    @property
    def cause(self) -> str:
        """All reasons in one line."""
        return " | ".join(fault.found or str(fault) for fault in self.faults)


class Preparer:
    """Builds the requests of one job.

    Side effects: `request` writes the certificate's data file into the attempt's folder, through the
    validator's child process; nothing else is written.
    """

    def __init__(self, job: Job, *, validator: VerlValidator, working_directory: Path, python: str) -> None:
        self._job = job
        self._validator = validator
        self._working_directory = working_directory
        self._python = python
        self._resolved: dict[str, ResolvedConfig] = {}

    def resolve(self, overrides: Overrides) -> ResolvedConfig:
        """The whole verl configuration with `overrides` over the job's own.

        Raises:
            VerlConfigError: A key or value that verl's configuration does not take.
        """
        key = json.dumps(overrides, sort_keys=True)
        if key not in self._resolved:
            config = compose(self._job.verl, whole_overrides(self._job, overrides))
            # Told trials are looked up again and again, by the memory model among others.
            self._resolved = {**dict(list(self._resolved.items())[-_KEPT + 1 :]), key: config}
        return self._resolved[key]

    def request(
        self,
        section: StageSection,
        overrides: Overrides,
        role: AttemptRole,
        paths: AttemptPaths,
        attempt_id: str,
    ) -> AttemptRequest | Refusal:
        """The request of one attempt, checked by our constraints and by verl's own validation."""
        settings = self.settings(section, overrides, role, paths)
        try:
            config = self.resolve(settings)
        except VerlConfigError as error:
            return Refusal(error.faults)
        faults = violations(config.flat, self.gpus(config))
        if not faults:
            texts = self._validator.validate(config.yaml())
            faults = [Fault(where="verl's own validation", found=text) for text in texts]
        if faults:
            return Refusal(tuple(faults))
        if role is AttemptRole.CERTIFICATE:
            config = self._with_longest_prompts(config, settings, section, paths)
        request = self._request(config, paths, attempt_id)
        # The finish shows what a user's own run will do, so each of its runs is one.
        return replace(request, session_key=None) if isinstance(section, FinishStage) else request

    def settings(
        self, section: StageSection, overrides: Overrides, role: AttemptRole, paths: AttemptPaths
    ) -> dict[str, Value]:
        """Everything over the job's own configuration that an attempt runs with, its mirrors included."""
        return {
            **attempt_overrides(section, overrides, role, paths),
            **mirror_overrides(self._job, paths),
        }

    def missing_loggers(self) -> dict[str, str]:
        """Why verl's environment cannot log to one of the job's trackers, by name."""
        return self._validator.missing_loggers(self._job.mirror.loggers)

    def gpus(self, config: ResolvedConfig) -> int:
        """GPUs that a trial of this configuration holds; on CPU its data-parallel ranks."""
        return gpus_of(config.flat, self._job.resources.gpus_per_trial)

    def cold_reason(self, config: ResolvedConfig) -> str | None:
        """Why trials of this configuration start a verl process each; None where they share sessions."""
        if not self._job.resources.warm_sessions:
            return "resources.warm_sessions is off"
        if self._job.verl.entry != STOCK_ENTRY:
            return f"verl.entry is {self._job.verl.entry}; a warm session takes the place of {STOCK_ENTRY}"
        version = verl_version()
        if version != VERL_RELEASE:
            return f"verl {version} is installed; warm sessions are built for {VERL_RELEASE}"
        return cold_only(config.flat)

    def _with_longest_prompts(
        self, config: ResolvedConfig, settings: Overrides, section: StageSection, paths: AttemptPaths
    ) -> ResolvedConfig:
        batch = config.flat.get("data.train_batch_size")
        rows = certificate_steps(section) * (batch if isinstance(batch, int) else 1)
        target = paths.root / "longest_prompts.parquet"
        make_folder(paths.root)
        self._validator.longest_prompts(config.yaml(), rows, target)
        return self.resolve({**settings, "data.train_files": str(target), "data.shuffle": False})

    def _request(self, config: ResolvedConfig, paths: AttemptPaths, attempt_id: str) -> AttemptRequest:
        resources = self._job.resources
        return AttemptRequest(
            attempt_id=attempt_id,
            folder=str(paths.root.absolute()),
            working_directory=str(self._working_directory),
            python=self._python,
            entry=self._job.verl.entry,
            config_text=config.yaml(),
            session_key=None if self.cold_reason(config) else cold_key(config.flat),
            environment=without_secrets(self._job.verl.environment),
            gpus=self.gpus(config),
            device=resources.device,
            cpu=CpuShare(
                cap_gb=resources.cpu.worker_memory_cap_gb,
                replay_poll_s=resources.cpu.replay_poll_s,
                ray_cpus=resources.cpu.ray_cpus,
                threads=resources.cpu.threads,
                kv_cache_gb=resources.cpu.kv_cache_gb,
            ),
            load_monitor=self._job.load_monitor,
            mirrors=self._job.mirror.loggers,
            # The controller's guard comes first; this one holds when the controller is gone.
            wall_limit_s=self._job.guards.wall_limit_s + 60.0,
        )


def whole_overrides(job: Job, overrides: Overrides) -> dict[str, Value]:
    """A candidate's overrides over what the job's other sections fix; all of it is exported."""
    whole = {**fixed_overrides(job), **overrides}
    if job.resources.device == "cpu" and _RAY_GPUS not in overrides:
        whole[_RAY_GPUS] = gpus_of(whole, job.resources.gpus_per_trial)
    return whole


def fixed_overrides(job: Job) -> dict[str, Value]:
    """What the job's other sections say about verl's own keys; part of what is exported."""
    return {**device_overrides(job), **extension_overrides(job.extensions)}


def device_overrides(job: Job) -> dict[str, Value]:
    """What the job's resources say about verl's own resource keys."""
    overrides: dict[str, Value] = {GPUS: job.resources.gpus_per_trial}
    if job.resources.device == "cpu":
        overrides["trainer.device"] = "cpu"
        # verl counts Ray's GPUs whatever the device is, and waits in silence for Ray CPUs it lacks.
        overrides[_RAY_GPUS] = job.resources.gpus_per_trial
        overrides["ray_kwargs.ray_init.num_cpus"] = job.resources.cpu.ray_cpus
    return overrides


def certificate_steps(section: StageSection) -> int:
    """Steps of survive's certificate; 0 where the stage has none."""
    if isinstance(section, SurviveStage) and section.certificate is not None:
        return section.certificate.steps
    return 0


def steps_of(section: StageSection, role: AttemptRole) -> int:
    """Steps that an attempt of this role is asked for."""
    return section.steps if role is AttemptRole.MEASURE else certificate_steps(section)


def attempt_overrides(
    section: StageSection, overrides: Overrides, role: AttemptRole, paths: AttemptPaths
) -> dict[str, Value]:
    """What the stage, the candidate and its being a trial lay over the job's own configuration."""
    return {**overrides, **section.overrides, **trial_overrides(section, role, paths)}


def trial_overrides(section: StageSection, role: AttemptRole, paths: AttemptPaths) -> dict[str, Value]:
    """What makes a verl run a trial. None of it is exported."""
    overrides: dict[str, Value] = {
        "trainer.total_training_steps": steps_of(section, role),
        "trainer.logger": list(OWN_LOGGERS),
        "trainer.val_before_train": False,
        "trainer.test_freq": (section.validate_every or -1) if isinstance(section, QualityStage) else -1,
        "trainer.save_freq": -1,
        # A folder that is used again would be resumed from, silently.
        "trainer.resume_mode": "disable",
        "trainer.default_local_dir": str(paths.root.absolute() / "checkpoints"),
        "data.seed": section.seed,
    }
    if isinstance(section, FinishStage) and section.validation:
        # verl validates after the last step, whatever the frequency is, once there is one.
        overrides["trainer.test_freq"] = section.steps
    if role is AttemptRole.CERTIFICATE:
        overrides["actor_rollout_ref.rollout.ignore_eos"] = True
    return overrides
