from __future__ import annotations

import pytest

from autotune.errors import VerlConfigError
from autotune.job.facts import FACTS, job_facts

ACTOR = "actor_rollout_ref.actor"


def test_facts_of_a_small_job(flat):
    facts = job_facts(flat, 2)
    assert facts == {
        "prompt_tokens": 64,
        "response_tokens": 16,
        "sequence_tokens": 80,
        "gpus": 2,
        "data_parallel_ranks": 2,
        "train_batch": 8,
        "mini_batch": 4,
        "rollout_n": 8,
        "samples": 64,
        "samples_per_gpu": 32,
        "mini_samples_per_gpu": 16,
        "use_dynamic_bsz": False,
        "use_kl_loss": True,
        "use_kl_in_reward": False,
        "uses_reference": True,
        "uses_critic": False,
    }
    assert set(facts) == set(FACTS)


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({f"{ACTOR}.ulysses_sequence_parallel_size": 2}, 4),
        ({f"{ACTOR}.strategy": "megatron", f"{ACTOR}.megatron.tensor_model_parallel_size": 4}, 2),
        ({f"{ACTOR}.ulysses_sequence_parallel_size": 16}, 1),
        ({f"{ACTOR}.megatron.tensor_model_parallel_size": 4}, 8),
    ],
)
def test_gpus_that_share_a_sample_are_one_rank(flat, changes, ranks):
    facts = job_facts({**flat, **changes}, 8)
    assert facts["data_parallel_ranks"] == ranks
    assert facts["samples_per_gpu"] == 64 // ranks


@pytest.mark.parametrize(
    ("estimator", "enable", "uses"),
    [("gae", None, True), ("grpo", None, False), ("grpo", True, True), ("gae", False, False)],
)
def test_critic_is_decided_as_verl_does(flat, estimator, enable, uses):
    facts = job_facts({**flat, "algorithm.adv_estimator": estimator, "critic.enable": enable}, 1)
    assert facts["uses_critic"] is uses


def test_all_unusable_figures_are_told_at_once(flat):
    broken = {**flat, "data.max_prompt_length": "???", "actor_rollout_ref.rollout.n": 0}
    del broken["data.train_batch_size"]
    with pytest.raises(VerlConfigError) as caught:
        job_facts(broken, 1)
    assert {fault.key for fault in caught.value.faults} == {
        "data.max_prompt_length",
        "actor_rollout_ref.rollout.n",
        "data.train_batch_size",
    }
