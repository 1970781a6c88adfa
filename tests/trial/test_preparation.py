"""What makes a run a trial, and what the job's own sections say about verl's keys."""

from pathlib import Path

import pytest

from autotune.job.model import Job, QualityStage
from autotune.job.paths import AttemptPaths
from autotune.job.space import SearchSpace
from autotune.records import AttemptRole
from autotune.trial.preparation import fixed_overrides, trial_overrides

SPACE = SearchSpace.model_validate(
    {"name": "s", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
)


@pytest.mark.parametrize(("every", "frequency"), [(None, -1), (5, 5)])
def test_only_a_quality_stage_that_asks_for_it_validates(every, frequency):
    section = QualityStage(search_space=SPACE, steps=20, trials=3, validate_every=every)
    found = trial_overrides(section, AttemptRole.MEASURE, AttemptPaths(Path("/runs/a")))
    assert found["trainer.test_freq"] == frequency
    assert found["trainer.val_before_train"] is False


def test_devices_and_extensions_are_fixed_for_every_trial():
    job = Job.model_validate(
        {
            "name": "j",
            "verl": {"overrides": {}},
            "resources": {"gpus_per_trial": 2},
            "extensions": {"length_bucketing": True},
            "stages": {"survive": {"search_space": SPACE, "steps": 3, "trials": 1}},
        }
    )
    assert fixed_overrides(job) == {
        "trainer.n_gpus_per_node": 2,
        "+ray_kwargs.ray_init.runtime_env.env_vars.AUTOTUNE_LENGTH_BUCKETS": "sorted",
    }
