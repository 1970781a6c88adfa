"""What verl and its trackers are told of an attempt, what reaches them, and what is refused before a launch."""

from pathlib import Path

import pytest

from autotune.job.model import Job
from autotune.job.paths import AttemptPaths
from autotune.trial.mirroring import handed_over, mirror_faults, mirror_overrides, mirror_words

SPACE = {"name": "s", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
PATHS = AttemptPaths(Path("/r/j/attempts/speed-3-0"))


def job_of(mirror, environment=None):
    return Job.model_validate(
        {
            "name": "j",
            "verl": {"overrides": {"trainer.logger": ["wandb"]}, "environment": environment or {}},
            "stages": {"survive": {"search_space": SPACE, "steps": 3, "trials": 1}},
            "mirror": mirror,
        }
    )


def test_each_attempt_is_a_run_of_its_own_beside_the_files_that_it_is_read_from():
    assert mirror_overrides(job_of({"loggers": ["wandb", "tensorboard"]}), PATHS) == {
        "trainer.logger": ["console", "file", "wandb", "tensorboard"],
        "trainer.project_name": "j",
        "trainer.experiment_name": "j/speed-3-0",
    }
    named = job_of({"loggers": ["mlflow"], "project": "p", "experiment": "night-2"})
    assert mirror_overrides(named, PATHS) == {
        "trainer.logger": ["console", "file", "mlflow"],
        "trainer.project_name": "p",
        "trainer.experiment_name": "night-2/speed-3-0",
    }


def test_without_loggers_verl_is_told_nothing():
    assert mirror_overrides(job_of({"project": "p"}), PATHS) == {}


def test_people_are_told_where_to_look():
    job = job_of({"loggers": ["tensorboard", "wandb"], "project": "p"})
    assert mirror_words(job, Path("results/j/attempts")) == (
        "trials are mirrored: tensorboard --logdir results/j/attempts, W&B project p"
    )
    assert mirror_words(job_of({}), Path("x")) is None


def test_trackers_variables_and_the_jobs_secrets_are_handed_over():
    outer = {"WANDB_API_KEY": "outer", "WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": "u", "PATH": "/bin"}
    job = job_of({"loggers": ["wandb"]}, {"WANDB_API_KEY": "job", "HF_TOKEN": "t", "NCCL_DEBUG": "INFO"})
    assert handed_over(job, outer) == {"WANDB_API_KEY": "job", "WANDB_MODE": "offline", "HF_TOKEN": "t"}
    assert handed_over(job_of({}), outer) == {}


def test_every_logger_that_verl_cannot_open_is_a_fault(tmp_path):
    job = job_of({"loggers": ["tensorboard", "mlflow", "wandb"]})
    missing = {"mlflow": "the package mlflow is not installed", "wandb": "this verl has no such logger"}
    faults = mirror_faults(job, missing, {}, tmp_path)
    assert [fault.found for fault in faults] == [f"{name}: {why}" for name, why in missing.items()]
    for fault in faults:
        assert (fault.where, fault.key) == ("job j", "mirror.loggers")
        assert fault.allowed == "tensorboard as verl's environment is now"
        assert "pip install" in fault.next_step


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({"WANDB_API_KEY": "k"}, None),
        ({"WANDB_MODE": "offline"}, None),
        ({"WANDB_IDENTITY_TOKEN_FILE": "f"}, None),
        ({}, ".netrc"),
        ({}, ".config/wandb/settings"),
    ],
)
def test_wandb_wants_a_login_in_one_of_its_places(tmp_path, environment, kept):
    job = job_of({"loggers": ["wandb"]})
    (fault,) = mirror_faults(job, {}, {}, tmp_path)
    assert "login" in fault.found
    if kept is not None:
        (tmp_path / kept).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kept).touch()
    assert mirror_faults(job, {}, environment, tmp_path) == []
