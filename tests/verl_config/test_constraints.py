"""One sane configuration passes; each rule is met by one change to it."""

import json
from pathlib import Path

import pytest

from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose
from autotune.verl_config.constraints import RULES, violations
from autotune.verl_config.training_shape import TrainingShape

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
KNOWN = Path(__file__).with_name("known_configs.jsonl")
"""From the launch scripts in verl's examples/ (commit in each row), keys that no rule reads left out."""

SANE = {
    "algorithm.adv_estimator": "grpo",
    "trainer.n_gpus_per_node": 8,
    "data.train_batch_size": 1024,
    "data.max_prompt_length": 512,
    "data.max_response_length": 1024,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.n": 5,
    f"{ROLLOUT}.tensor_model_parallel_size": 2,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 40,
    f"{REF}.log_prob_micro_batch_size_per_gpu": 40,
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.ppo_mini_batch_size": 256,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 40,
}
PACKED = {f"{ACTOR}.use_dynamic_bsz": True}
MEGATRON = {"model_engine": "megatron"}
CRITIC = {"algorithm.adv_estimator": "gae", "critic.ppo_micro_batch_size_per_gpu": 8}
ASYNC = {"trainer.v1.trainer_mode": "separate_async"}


def flat_of(changes):
    selections = {key: value for key, value in changes.items() if key in MEGATRON}
    values = {key: value for key, value in changes.items() if key not in MEGATRON}
    return compose(VerlSection(overrides={**SANE, **selections}), values).flat


def broken_rules(flat, gpus=8):
    return {name for name, rule in RULES.items() if list(rule(TrainingShape(flat, gpus)))}


@pytest.mark.parametrize("changes", [{}, PACKED, CRITIC, {**PACKED, **CRITIC}])
def test_sane_configurations_pass(changes):
    assert violations(flat_of(changes), 8) == []


def test_sane_megatron_passes():
    changes = {
        **MEGATRON,
        f"{ACTOR}.megatron.tensor_model_parallel_size": 2,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4,
    }
    assert violations(flat_of(changes), 8) == []


@pytest.mark.parametrize(
    ("rule", "changes", "key", "found"),
    [
        ("gpus_agree", {"trainer.n_gpus_per_node": 4}, "trainer.n_gpus_per_node", "4 * 1 nodes = 4 GPUs"),
        (
            "batch_divides",
            {"data.train_batch_size": 513},
            "data.train_batch_size",
            "513 * 5 samples over 8 GPUs",
        ),
        ("mini_batch_fits", {f"{ACTOR}.ppo_mini_batch_size": 2048}, f"{ACTOR}.ppo_mini_batch_size", "2048"),
        (
            "mini_batch_divides",
            {f"{ACTOR}.ppo_mini_batch_size": 12},
            f"{ACTOR}.ppo_mini_batch_size",
            "12 * 5 samples",
        ),
        (
            "micro_batch_given",
            {f"{REF}.log_prob_micro_batch_size_per_gpu": None},
            f"{REF}.log_prob_micro_batch_size_per_gpu",
            "null",
        ),
        (
            "micro_batch_divides",
            {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 3},
            f"{ACTOR}.ppo_micro_batch_size_per_gpu",
            "3 with 160 samples of the mini batch on each of 8 ranks",
        ),
        (
            "token_budget",
            {**PACKED, f"{ACTOR}.ppo_max_token_len_per_gpu": 1000},
            f"{ACTOR}.ppo_max_token_len_per_gpu",
            "1000 tokens * 1 GPUs",
        ),
        (
            "packing_agrees",
            {**PACKED, f"{ROLLOUT}.log_prob_use_dynamic_bsz": False},
            f"{ROLLOUT}.log_prob_use_dynamic_bsz",
            "false",
        ),
        ("asynchronous_batch", ASYNC, f"{ROLLOUT}.nnodes", "0"),
        ("rollout_engine", {f"{ROLLOUT}.name": "hf"}, f"{ROLLOUT}.name", "hf"),
        ("rollout_engine", {f"{ROLLOUT}.mode": "sync"}, f"{ROLLOUT}.mode", "sync"),
        (
            "rollout_gpus_divide",
            {f"{ROLLOUT}.tensor_model_parallel_size": 3},
            f"{ROLLOUT}.tensor_model_parallel_size",
            "3 * data_parallel_size 1 = 3 GPUs an engine",
        ),
        ("experts", {f"{ROLLOUT}.expert_parallel_size": 4}, f"{ROLLOUT}.expert_parallel_size", "4"),
        (
            "rollout_limits",
            {f"{ROLLOUT}.gpu_memory_utilization": 1.2},
            f"{ROLLOUT}.gpu_memory_utilization",
            "1.2",
        ),
        (
            "rollout_limits",
            {f"{ROLLOUT}.max_num_batched_tokens": 128},
            f"{ROLLOUT}.max_num_batched_tokens",
            "128",
        ),
        ("rollout_limits", {f"{ROLLOUT}.max_model_len": 1024}, f"{ROLLOUT}.max_model_len", "1024"),
        ("lora_rank", {f"{MODEL}.lora_rank": 1024}, f"{MODEL}.lora_rank", "1024"),
        ("actor_gpus_divide", {f"{ACTOR}.fsdp_config.fsdp_size": 3}, f"{ACTOR}.fsdp_config.fsdp_size", "3"),
        (
            "sequence_parallel_needs_packing",
            {f"{ACTOR}.ulysses_sequence_parallel_size": 2, f"{MODEL}.use_remove_padding": False},
            f"{ACTOR}.ulysses_sequence_parallel_size",
            "2",
        ),
        ("engine_values", {f"{ACTOR}.strategy": "ddp"}, f"{ACTOR}.strategy", "ddp"),
        (
            "engine_values",
            {f"{ACTOR}.fsdp_config.mixed_precision": "bf16"},
            f"{ACTOR}.fsdp_config.mixed_precision",
            "'bf16'",
        ),
        ("loss_values", {f"{ACTOR}.loss_agg_mode": "mean"}, f"{ACTOR}.loss_agg_mode", "mean"),
        ("loss_values", {f"{ACTOR}.clip_ratio_c": 1.0}, f"{ACTOR}.clip_ratio_c", "1.0"),
    ],
)
def test_each_rule_names_key_and_arithmetic(rule, changes, key, found):
    flat = flat_of(changes)
    assert rule in broken_rules(flat)
    faults = [fault for fault in violations(flat, 8) if fault.key == key]
    assert any(found in fault.found for fault in faults)


def test_packing_by_tokens_lifts_the_rules_about_samples():
    changes = {**PACKED, "data.train_batch_size": 513, f"{ACTOR}.ppo_micro_batch_size_per_gpu": None}
    assert violations(flat_of(changes), 8) == []


def test_sequence_parallel_shares_a_budget():
    changes = {
        **PACKED,
        f"{ACTOR}.ulysses_sequence_parallel_size": 2,
        f"{REF}.ulysses_sequence_parallel_size": 2,
    }
    assert violations(flat_of({**changes, f"{ACTOR}.ppo_max_token_len_per_gpu": 768}), 8) == []
    assert broken_rules(flat_of({**changes, f"{ACTOR}.ppo_max_token_len_per_gpu": 767})) == {"token_budget"}


def test_lora_needs_no_reference_of_its_own():
    changes = {f"{MODEL}.lora_rank": 32, f"{REF}.log_prob_micro_batch_size_per_gpu": None}
    assert violations(flat_of(changes), 8) == []


def test_megatron_counts_whole_micro_batches():
    changes = {**MEGATRON, f"{ACTOR}.megatron.tensor_model_parallel_size": 2, "data.train_batch_size": 1023}
    (fault,) = [fault for fault in violations(flat_of(changes), 8) if fault.key == "data.train_batch_size"]
    assert "4 ranks * 40 samples of a micro batch" in fault.found


@pytest.mark.parametrize(
    "row", [json.loads(line) for line in KNOWN.read_text().splitlines()], ids=lambda row: row["id"]
)
def test_configurations_published_with_verl(row):
    """Rows that verl 0.9.1 refuses carry the rules that say so; all others pass."""
    flat = compose(VerlSection(overrides=row["overrides"], config_name=row["config_name"]), {}).flat
    assert sorted(broken_rules(flat, row["gpus"])) == row["broken"]
