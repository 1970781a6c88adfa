"""Levers on a run's own values: which keys, how far, and what the decisive line prescribes."""

import pytest

from autotune.search.levers import levers

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."
REF = "actor_rollout_ref.ref."
VALUES = {
    ACTOR + "ppo_micro_batch_size_per_gpu": 40,
    ACTOR + "ppo_max_token_len_per_gpu": 16384,
    ACTOR + "use_dynamic_bsz": False,
    ACTOR + "use_kl_loss": True,
    ACTOR + "kl_loss_coef": 0.001,
    ACTOR + "fsdp_config.param_offload": False,
    ACTOR + "fsdp_config.optimizer_offload": True,
    ACTOR + "optim.lr": 1e-6,
    ACTOR + "ulysses_sequence_parallel_size": 1,
    ROLLOUT + "gpu_memory_utilization": 0.6,
    ROLLOUT + "max_num_seqs": 256,
    ROLLOUT + "max_model_len": None,
    ROLLOUT + "tensor_model_parallel_size": 2,
    ROLLOUT + "log_prob_micro_batch_size_per_gpu": 40,
    ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes": 2048,
    REF + "log_prob_micro_batch_size_per_gpu": 40,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "data.max_prompt_length": 512,
    "data.max_response_length": 1024,
    "data.train_batch_size": 66,
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
}


def moves(kind, line="", values=VALUES):
    return {move.key: (move.before, move.after) for move in levers(kind, line, values)}


def first(kind, line="", values=VALUES):
    move = levers(kind, line, values)[0]
    return move.key, move.before, move.after


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("oom_gpu_actor_update", (ACTOR + "ppo_micro_batch_size_per_gpu", 40, 20)),
        ("oom_gpu_log_prob", (ROLLOUT + "log_prob_micro_batch_size_per_gpu", 40, 20)),
        ("oom_gpu_rollout_wakeup", (ROLLOUT + "gpu_memory_utilization", 0.6, 0.5)),
        ("oom_gpu_rollout_runtime", (ROLLOUT + "max_num_seqs", 256, 64)),
        ("oom_gpu_rollout_init", (ROLLOUT + "gpu_memory_utilization", 0.6, 0.7)),
        ("oom_gpu_init", (ACTOR + "fsdp_config.param_offload", False, True)),
        ("oom_host_ram", (ACTOR + "fsdp_config.optimizer_offload", True, False)),
        ("nan_inf", (ACTOR + "optim.lr", 1e-6, 3e-7)),
    ],
)
def test_the_first_lever_of_a_kind_on_the_users_own_value(kind, expected):
    assert first(kind) == expected


def test_a_packing_run_is_given_token_budgets():
    packing = {**VALUES, ACTOR + "use_dynamic_bsz": True}
    found = moves("oom_gpu_actor_update", values=packing)
    assert found[ACTOR + "ppo_max_token_len_per_gpu"] == (16384, 8192)
    assert ACTOR + "ppo_micro_batch_size_per_gpu" not in found


def test_what_is_so_already_is_no_lever():
    found = moves("oom_gpu_actor_update")
    assert "actor_rollout_ref.model.enable_gradient_checkpointing" not in found
    assert ACTOR + "fsdp_config.optimizer_offload" not in found
    smallest = {**VALUES, ACTOR + "ppo_micro_batch_size_per_gpu": 1}
    assert ACTOR + "ppo_micro_batch_size_per_gpu" not in moves("oom_gpu_actor_update", values=smallest)


def test_the_references_keys_need_a_reference():
    without = {**VALUES, ACTOR + "use_kl_loss": False}
    assert REF + "log_prob_micro_batch_size_per_gpu" in moves("oom_gpu_log_prob")
    assert REF + "log_prob_micro_batch_size_per_gpu" not in moves("oom_gpu_log_prob", values=without)


def test_an_engine_is_not_spread_over_more_gpus_than_there_are():
    assert moves("oom_gpu_rollout_init")[ROLLOUT + "tensor_model_parallel_size"] == (2, 4)
    two = {**VALUES, "trainer.n_gpus_per_node": 2}
    assert ROLLOUT + "tensor_model_parallel_size" not in moves("oom_gpu_rollout_init", values=two)
    assert moves("oom_gpu_rollout_init")[ROLLOUT + "max_model_len"] == (None, 1536)


def test_without_values_the_keys_are_named_all_the_same():
    found = moves("oom_gpu_actor_update", values={})
    assert found[ACTOR + "ppo_micro_batch_size_per_gpu"] == (None, None)
    assert found["actor_rollout_ref.model.enable_gradient_checkpointing"] == (None, True)


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        (
            "config_validation",
            "ValueError: max_num_batched_tokens (8192) is smaller than max_model_len (131072).",
            {ROLLOUT + "max_model_len": (None, 1536)},
        ),
        (
            "config_validation",
            "ValueError: max_num_batched_tokens (1024) is smaller than max_model_len (1536).",
            {ROLLOUT + "max_num_batched_tokens": (None, 1536)},
        ),
        (
            "config_validation",
            "AssertionError: max_token_len must be greater than the sequence length. Got"
            " max_token_len=16384 and max_seq_len=40960",
            {ACTOR + "ppo_max_token_len_per_gpu": (16384, 40960)},
        ),
        (
            "oom_gpu_rollout_init",
            "ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired"
            " GPU memory utilization (0.9, 19.84 GiB).",
            {ROLLOUT + "gpu_memory_utilization": (0.6, 0.88)},
        ),
        (
            "ray_resources",
            "ValueError: Total available GPUs 7.0 is less than total desired GPUs 8",
            {"trainer.n_gpus_per_node": (8, 7)},
        ),
        (
            "config_validation",
            "Weight model.embed_tokens.weight(151936, 5120) fp32 = 3.11GB is too large for the"
            " 2048 MB bucket.",
            {ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes": (2048, 4096)},
        ),
        (
            "config_validation",
            "normalized ppo_mini_batch_size 64 should be divisible by ppo_micro_batch_size_per_gpu 40",
            {ACTOR + "ppo_micro_batch_size_per_gpu": (40, 32)},
        ),
        (
            "config_validation",
            "AssertionError: only support equal chunk. Got size of DataProto 66 and chunk 4.",
            {"data.train_batch_size": (66, 68)},
        ),
        ("config_validation", "Could not override 'data.nope'.", {"data.nope": (None, None)}),
    ],
)
def test_the_line_prescribes(kind, line, expected):
    found = moves(kind, line)
    assert {key: found.get(key) for key in expected} == expected


def test_an_engine_without_free_memory_is_never_told_to_grow():
    line = (
        "Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired GPU memory"
        " utilization (0.9, 19.84 GiB)."
    )
    assert moves("oom_gpu_rollout_init", line)[ROLLOUT + "gpu_memory_utilization"] == (0.6, 0.88)


@pytest.mark.parametrize("kind", [None, "unknown", "reward_function", "port_conflict"])
def test_nothing_to_change(kind):
    assert levers(kind, "", VALUES) == []


def test_the_fields_of_the_answer():
    move = levers("oom_gpu_actor_update", "", VALUES)[0]
    assert move.to_json() == {
        "key": ACTOR + "ppo_micro_batch_size_per_gpu",
        "from": 40,
        "to": 20,
        "why": "fewer sequences in one backward pass",
    }
