"""A run whose trials are mirrored: each attempt by a name of its own, and nothing else is different."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.controller.assembly import check_mirror
from autotune.controller.ladder_run import run_ladder
from autotune.errors import ResourceError
from autotune.records import StageName
from tests.controller.conftest import AgreeableValidator, configuration, job_of, value_of

STAGES = (StageName.SURVIVE, StageName.SPEED)


def test_attempts_have_names_of_their_own_and_share_sessions_as_before(rig: Any, tmp_path: Any) -> None:
    with rig(job=job_of(tmp_path / "plain")) as plain:
        expected = run_ladder(plain.services, plain.controller, STAGES)
    job = job_of(tmp_path / "mirrored", mirror={"loggers": ["tensorboard"], "project": "mine"})
    with rig(job=job) as mirrored:
        results = run_ladder(mirrored.services, mirrored.controller, STAGES)
    assert results == expected

    names = []
    for request in mirrored.launcher.started:
        tree = configuration(request.config_text)
        names.append(value_of(tree, "trainer.experiment_name"))
        assert value_of(tree, "trainer.logger") == ["console", "file", "tensorboard"]
        assert value_of(tree, "trainer.project_name") == "mine"
        assert request.mirrors == ("tensorboard",)
    assert len(set(names)) == len(names)
    assert names[0] == "played/survive-0-0"

    sessions = [[request.session_key for request in one.launcher.started] for one in (plain, mirrored)]
    assert [len(set(keys)) for keys in sessions] == [1, 1]


def test_what_is_handed_on_and_exported_has_none_of_it(rig: Any, tmp_path: Any) -> None:
    own = {**job_of(tmp_path).verl.overrides, "trainer.logger": ["wandb"], "trainer.project_name": "users"}
    job = job_of(
        tmp_path / "results", verl={"overrides": own}, mirror={"loggers": ["tensorboard"], "project": "mine"}
    )
    with rig(job=job) as one:
        results = run_ladder(one.services, one.controller, [StageName.SURVIVE])
        flat = one.services.preparer.resolve(results[StageName.SURVIVE].overrides).flat
    assert (flat["trainer.logger"], flat["trainer.project_name"]) == (["wandb"], "users")
    assert flat["trainer.experiment_name"] == "gsm8k"


class Lacking(AgreeableValidator):
    """An environment without MLflow."""

    def missing_loggers(self, names: Any) -> dict[str, str]:
        return {name: "not installed" for name in names if name == "mlflow"}


def test_a_logger_that_is_not_there_is_refused_before_anything_starts(rig: Any, tmp_path: Any) -> None:
    job = job_of(tmp_path / "results", mirror={"loggers": ["tensorboard", "mlflow"]})
    with rig(job=job, validator=Lacking()) as one, pytest.raises(ResourceError) as caught:
        check_mirror(job, one.services.preparer)
    (fault,) = caught.value.faults
    assert (fault.key, fault.found) == ("mirror.loggers", "mlflow: not installed")


def test_a_job_without_mirrors_asks_nobody(rig: Any, tmp_path: Any) -> None:
    with rig() as one:
        check_mirror(one.services.job, one.services.preparer)  # the played validator cannot answer
