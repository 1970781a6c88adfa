import pytest

from autotune.job.model import Job
from autotune.judge.run_facts import RunFacts, run_facts

LOSS_TYPE, PENALTY = "actor_rollout_ref.actor.kl_loss_type", "algorithm.kl_penalty"


def job_with(**sections):
    space = {"name": "s", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
    stages = {"survive": {"search_space": space, "steps": 3, "trials": 1}}
    return Job.model_validate({"name": "j", "verl": {"overrides": {}}, "stages": stages, **sections})


@pytest.mark.parametrize(
    ("flat", "metric", "estimator"),
    [
        ({LOSS_TYPE: "low_var_kl"}, "actor/kl_loss", "k3"),
        ({LOSS_TYPE: "k2+"}, "actor/kl_loss", "k2"),
        ({LOSS_TYPE: "low_var_kl", PENALTY: "kl"}, "actor/reward_kl_penalty", "k1"),
        ({LOSS_TYPE: "of my own"}, "actor/kl_loss", ""),
        ({}, "actor/kl_loss", ""),
        ({LOSS_TYPE: "kl"}, "some/other", ""),
    ],
)
def test_the_estimator_of_the_watched_kl(flat, metric, estimator):
    assert run_facts(flat, job_with(guards={"kl_metric": metric})).kl_estimator == estimator


def test_limits_and_switches():
    flat = {"data.max_response_length": 48, "data.dataloader_num_workers": 8}
    assert run_facts(flat, job_with()) == RunFacts(response_limit_tokens=48, loader_workers=8)
    assert run_facts({"data.max_response_length": True}, job_with()) == RunFacts()
    assert run_facts({}, job_with(extensions={"input_pipeline": "search"})).watch_input
