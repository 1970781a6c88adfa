from __future__ import annotations

import pytest

from autotune.job.facts import job_facts
from autotune.job.loading import load_job
from autotune.job.space_resolution import resolve_space
from autotune.job.starter import first_job


@pytest.mark.parametrize("device", ["gpu", "cpu"])
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
def test_a_first_job_loads_and_its_batches_divide(write_job, device, algorithm, gpus):
    job = load_job(
        write_job(first_job("first", "m", "t.parquet", ["v.parquet"], gpus, "r.py", algorithm, device))
    )
    verl = job.verl.overrides
    facts = job_facts(verl, gpus)
    assert facts["uses_reference"]
    assert facts["uses_critic"] is (algorithm == "ppo")
    assert facts["mini_samples_per_gpu"] % verl["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == 0
    assert facts["samples"] % gpus == 0
    assert gpus % verl["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 0
    assert job.resources.device == device
    for name in job.stage_names():
        space = resolve_space(job.stage(name).search_space, facts, verl)
        assert len(space.active({})) >= 3


@pytest.mark.parametrize(
    "path", ['models/with "quotes"', "models/a: b # c", "C:\\models", "- x", "\u00e9t\u00e9", "yes", "1e-6"]
)
def test_any_path_survives_the_yaml(write_job, path):
    job = load_job(write_job(first_job("first", path, path, [path, "b"], 1, path)))
    verl = job.verl.overrides
    assert verl["actor_rollout_ref.model.path"] == path
    assert verl["data.train_files"] == path
    assert verl["data.val_files"] == [path, "b"]
    assert verl["reward.custom_reward_function.path"] == path


def test_without_a_reward_file_verls_own_is_used(write_job):
    job = load_job(write_job(first_job("first", "m", "t", "v", 1)))
    assert not [key for key in job.verl.overrides if key.startswith("reward.")]


@pytest.mark.parametrize(("algorithm", "device"), [("dpo", "gpu"), ("grpo", "tpu")])
def test_another_algorithm_or_device_is_refused(algorithm, device):
    with pytest.raises(ValueError, match=r"no first job"):
        first_job("first", "m", "t", "v", 1, None, algorithm, device)
