"""Traps around the run: folders that resume, hangs at the start, files, and the model's own code."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity, shown
from autotune.verl_config.training_shape import ACTOR, MODEL, REF, ROLLOUT

_CPUS = "ray_kwargs.ray_init.num_cpus"
_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


def _resume(setting: Setting) -> Iterable[Hit]:
    """With names of verl's own defaults, two different runs share one folder."""
    if setting.own_folders or setting.flat.get("trainer.resume_mode") != "auto":
        return
    saves = (setting.shape.number("trainer.save_freq") or -1) > 0
    named = any(
        setting.gives(key)
        for key in ("trainer.default_local_dir", "trainer.experiment_name", "trainer.project_name")
    )
    if saves and not named:
        yield Hit(
            key="trainer.default_local_dir",
            found=shown(setting.flat.get("trainer.default_local_dir")),
            message="a later run of the same names resumes from it or overwrites it: resume_mode is auto",
            fix=Fix(set={"trainer.resume_mode": "disable"}),
        )


def _resumes_elsewhere(setting: Setting) -> Iterable[Hit]:
    mode, path = setting.flat.get("trainer.resume_mode"), setting.flat.get("trainer.resume_from_path")
    if path and mode != "resume_path":
        yield Hit(
            key="trainer.resume_from_path",
            found=shown(path),
            message=f"not read while trainer.resume_mode is {shown(mode)}",
            fix=Fix(set={"trainer.resume_mode": "resume_path"}),
        )


def _ray_cpus(setting: Setting) -> Iterable[Hit]:
    cpus = setting.shape.count(_CPUS)
    if cpus is None or not setting.is_v1:
        return
    units = setting.shape.count(_UNITS)
    needed = 2 + (8 if units is None else units) + 3 * setting.gpus
    if cpus < needed:
        yield Hit(
            key=_CPUS,
            found=str(cpus),
            message=f"verl waits for ever without a word: its actors hold {needed} CPUs",
            fix=Fix(set={_CPUS: max(32, needed)}),
        )


def _remote_code(setting: Setting) -> Iterable[Hit]:
    key = f"{MODEL}.trust_remote_code"
    if setting.model is not None and setting.model.get("auto_map") and not setting.flat.get(key):
        yield Hit(
            key=key,
            found=shown(setting.flat.get(key)),
            message="the model's config.json has auto_map: it brings code of its own",
            fix=Fix(set={key: True}),
        )


def _deprecated(setting: Setting) -> Iterable[Hit]:
    for old, new in (
        (f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu"),
        (f"{ROLLOUT}.log_prob_micro_batch_size", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"),
        (f"{REF}.log_prob_micro_batch_size", f"{REF}.log_prob_micro_batch_size_per_gpu"),
        ("critic.ppo_micro_batch_size", "critic.ppo_micro_batch_size_per_gpu"),
    ):
        value = setting.given.get(old)
        if value is None:
            continue
        size = max(1, value // setting.gpus) if isinstance(value, int) else None
        if setting.given.get(new) is None:
            yield Hit(
                key=old,
                found=shown(value),
                message=f"deprecated, counts over all GPUs; {new} counts on one",
                fix=Fix(set={new: size}, remove=(old,)) if size else None,
            )


def _warmup_style(setting: Setting) -> Iterable[Hit]:
    for section in (f"{ACTOR}.optim", "critic.optim"):
        key, new = f"{section}.warmup_style", f"{section}.lr_scheduler_type"
        if setting.given.get(key) is not None and new in setting.schema.defaults:
            yield Hit(
                key=key,
                found=shown(setting.given[key]),
                message=f"deprecated: {new}",
                fix=Fix(set={new: setting.given[key]}, remove=(key,)),
            )


def _loggers(setting: Setting) -> Iterable[Hit]:
    given = setting.given.get("trainer.logger")
    known = {
        *("wandb", "mlflow", "swanlab", "vemlp_wandb", "tensorboard", "console", "clearml", "trackio"),
        *("file", "rl_insight", "tracking"),
    }
    names = given if isinstance(given, list) else []
    for name in names:
        if isinstance(name, str) and name not in known:
            allowed = ", ".join(sorted(known - {"tracking"}))
            yield Hit(key="trainer.logger", found=name, message=f"allowed: {allowed}")


RUNNING_RULES = (
    Rule(
        "folder_resumes",
        Severity.WARNING,
        "trainer.resume_mode=auto takes up the newest checkpoint of default_local_dir",
        _resume,
    ),
    Rule(
        "resume_path_unread", Severity.WARNING, "Read with resume_mode=resume_path alone", _resumes_elsewhere
    ),
    Rule(
        "too_few_ray_cpus",
        Severity.ERROR,
        "TransferQueue's units and 3 CPUs a GPU are reserved (ray/base.py:146); verl hangs silently",
        _ray_cpus,
    ),
    Rule("remote_code", Severity.ERROR, "transformers refuses to run the model's code unasked", _remote_code),
    Rule(
        "deprecated_micro_batch",
        Severity.NOTE,
        "verl 0.9 asserts the form per GPU besides (workers/engine_workers.py:636)",
        _deprecated,
    ),
    Rule("deprecated_warmup_style", Severity.WARNING, "workers/config/optimizer.py", _warmup_style),
    Rule("unknown_logger", Severity.ERROR, "utils/tracking.py asserts the name", _loggers),
)
