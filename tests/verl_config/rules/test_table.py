"""Every rule applies where it should, to nothing sound, and its fix mends it."""

from dataclasses import replace

import pytest

from autotune.verl_config.rules.rule import Severity
from autotune.verl_config.rules.table import RULES, findings
from autotune.verl_config.schema.released import released_versions
from tests.verl_config.rules.settings import ACTOR, MODEL, QWEN_7B, REF, ROLLOUT, found, found_ids, setting

SPOILED = {
    "unknown_key": {"values": {f"{ACTOR}.ppo_mini_batch_sise": 32}},
    "misplaced_key": {"values": {"algorithm.clip_ratio": 0.1}},
    "invented_key": {"values": {"data.prefetch_factor": 4}},
    "gpus_agree": {"values": {"trainer.n_gpus_per_node": 4}},
    "batch_divides": {"values": {"data.train_batch_size": 63, f"{ROLLOUT}.n": 5}},
    "mini_batch_fits": {"values": {f"{ACTOR}.ppo_mini_batch_size": 128}},
    "mini_batch_divides": {"values": {f"{ACTOR}.ppo_mini_batch_size": 31, f"{ROLLOUT}.n": 5}},
    "micro_batch_given": {"drop": (f"{ACTOR}.ppo_micro_batch_size_per_gpu",)},
    "micro_batch_divides": {"values": {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 12}},
    "token_budget": {
        "values": {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": 1024},
    },
    "packing_agrees": {"values": {f"{ROLLOUT}.log_prob_use_dynamic_bsz": True}},
    "asynchronous_batch": {"values": {"trainer.v1.trainer_mode": "separate_async"}},
    "rollout_engine": {"values": {f"{ROLLOUT}.name": "hf"}},
    "rollout_gpus_divide": {"values": {f"{ROLLOUT}.tensor_model_parallel_size": 3}},
    "experts": {"values": {f"{ROLLOUT}.expert_parallel_size": 3}},
    "rollout_limits": {"values": {f"{ROLLOUT}.max_model_len": 1024}},
    "lora_rank": {"values": {f"{MODEL}.lora_rank": 1024}},
    "actor_gpus_divide": {"values": {f"{ACTOR}.ulysses_sequence_parallel_size": 3}},
    "sequence_parallel_needs_packing": {
        "values": {f"{ACTOR}.ulysses_sequence_parallel_size": 2, f"{MODEL}.use_remove_padding": False},
    },
    "engine_values": {"values": {f"{ACTOR}.strategy": "deepspeed"}},
    "loss_values": {"values": {f"{ACTOR}.loss_agg_mode": "mean"}},
    "budget_without_chunked_prefill": {
        "values": {f"{ROLLOUT}.enable_chunked_prefill": False, f"{ROLLOUT}.max_num_batched_tokens": 1024},
    },
    "model_shape": {"values": {f"{ROLLOUT}.tensor_model_parallel_size": 8}, "model": QWEN_7B},
    "dead_key": {"values": {f"{ACTOR}.grad_clip": 0.1}},
    "clip_ratio_shadowed": {"values": {f"{ACTOR}.clip_ratio": 0.1}},
    "reward_keys_moved": {"values": {"custom_reward_function.path": "reward.py"}},
    "micro_batch_shadowed": {"values": {f"{ACTOR}.use_dynamic_bsz": True}},
    "kl_in_reward_off": {"values": {"algorithm.kl_ctrl.kl_coef": 0.01}},
    "kl_loss_off": {"values": {f"{ACTOR}.use_kl_loss": False, f"{ACTOR}.kl_loss_coef": 0.01}},
    "kl_twice": {"values": {"algorithm.use_kl_in_reward": True}},
    "lambda_without_gae": {"values": {"algorithm.lam": 0.95}},
    "group_of_one": {"values": {f"{ROLLOUT}.n": 1}},
    "clip_range": {"values": {f"{ACTOR}.clip_ratio_low": 1.5}},
    "entropy_bonus": {"values": {f"{ACTOR}.entropy_coeff": 0.01}},
    "batch_padded": {"values": {f"{ACTOR}.ppo_mini_batch_size": 48}},
    "expandable_segments": {"environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    "model_length_unset": {"values": {f"{ROLLOUT}.max_model_len": None}, "model": QWEN_7B},
    "weight_bucket": {
        "values": {f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 512},
        "model": QWEN_7B,
    },
    "checkpointing_off": {"values": {f"{MODEL}.enable_gradient_checkpointing": False}},
    "utilization_high": {"values": {f"{ROLLOUT}.gpu_memory_utilization": 0.95}},
    "fused_kernels_with_sp": {
        "values": {f"{MODEL}.use_fused_kernels": True, f"{ACTOR}.ulysses_sequence_parallel_size": 2},
    },
    "folder_resumes": {"values": {"trainer.save_freq": 10}, "drop": ("trainer.experiment_name",)},
    "resume_path_unread": {"values": {"trainer.resume_from_path": "checkpoints/global_step_5"}},
    "too_few_ray_cpus": {"values": {"ray_kwargs.ray_init.num_cpus": 8}},
    "remote_code": {"model": {**QWEN_7B, "auto_map": {"AutoModel": "modeling.Mine"}}},
    "deprecated_micro_batch": {
        "values": {f"{ACTOR}.ppo_micro_batch_size": 64},
        "version": "0.7.1",
        "drop": (f"{ACTOR}.ppo_micro_batch_size_per_gpu",),
    },
    "deprecated_warmup_style": {"values": {f"{ACTOR}.optim.warmup_style": "cosine"}},
    "unknown_logger": {"values": {"trainer.logger": ["console", "weights_and_biases"]}},
    "changed_default": {},
}


def test_every_rule_has_an_example_and_a_name_of_its_own():
    ids = [rule.id for rule in RULES]
    assert sorted(ids) == sorted(SPOILED)
    assert all(rule.reason for rule in RULES)


@pytest.mark.parametrize("id_", SPOILED)
def test_a_rule_finds_what_it_is_for(id_):
    assert id_ in found_ids(**SPOILED[id_])


@pytest.mark.parametrize("version", released_versions())
def test_nothing_is_wrong_with_a_sound_configuration(version):
    assert [f for f in found(version=version, model=QWEN_7B) if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("id_", SPOILED)
def test_a_fix_mends_what_it_is_for(id_):
    spoiled = setting(**SPOILED[id_])
    hits = [finding for finding in findings(spoiled) if finding.rule == id_ and finding.fix is not None]
    given = dict(spoiled.given)
    for finding in hits:
        given.update(finding.fix.set)
        for key in finding.fix.remove:
            given.pop(key, None)
    environment = {
        name: value
        for name, value in spoiled.environment.items()
        if name not in {key for finding in hits for key in finding.fix.remove}
    }
    left = {(f.rule, f.key) for f in findings(replace(spoiled, given=given, environment=environment))}
    assert left.isdisjoint({(finding.rule, finding.key) for finding in hits})


def test_the_worst_comes_first():
    severities = [finding.severity for finding in found(values={f"{ACTOR}.grad_clip": 0.1, "nope": 1})]
    assert severities == sorted(severities, key=list(Severity).index)


def test_a_value_that_nobody_knows_is_not_judged():
    unknown = {f"{ROLLOUT}.name": None, f"{ACTOR}.ppo_micro_batch_size_per_gpu": None}
    assert "micro_batch_given" in found_ids(values=unknown)
    assert "micro_batch_given" not in found_ids(values=unknown, unknown=frozenset(unknown))


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("algorithm.clip_ratio", f"{ACTOR}.clip_ratio"),
        ("trainer.use_dynamic_bsz", f"{ACTOR}.use_dynamic_bsz"),
        ("trainer.fsdp_config.param_offload", f"{ACTOR}.fsdp_config.param_offload"),
        ("trainer.gpu_memory_utilization", f"{ROLLOUT}.gpu_memory_utilization"),
        ("algorithm.kl_loss_coef", f"{ACTOR}.kl_loss_coef"),
        (
            f"{ROLLOUT}.update_weights_bucket_megabytes",
            f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes",
        ),
        ("critic.model.fsdp_config.param_offload", "critic.fsdp.param_offload"),
    ],
)
def test_where_a_misplaced_key_belongs(key, right):
    (hit,) = [finding for finding in found(values={key: True}) if finding.rule == "misplaced_key"]
    assert right in hit.message


def test_a_key_of_another_version_names_the_versions_that_have_it():
    (hit,) = [f for f in found(values={"data.gen_batch_size": 8}, version="0.7.1") if f.rule == "unknown_key"]
    assert "0.9.0, 0.9.1" in hit.message


def test_a_plus_lets_a_new_key_through_unless_it_is_known_to_be_nobodys():
    assert "unknown_key" not in found_ids(values={"+data.mine": 1})
    assert "invented_key" in found_ids(values={"+data.prefetch_factor": 4})


@pytest.mark.parametrize(
    ("version", "rule", "values", "applies"),
    [
        ("0.7.1", "dead_key", {f"{ACTOR}.grad_clip": 0.1}, False),
        ("0.8.0", "dead_key", {f"{ACTOR}.grad_clip": 0.1}, True),
        ("0.8.0", "dead_key", {"trainer.balance_batch": False}, False),
        ("0.9.1", "dead_key", {"trainer.balance_batch": False}, True),
        ("0.9.1", "dead_key", {"trainer.balance_batch": True}, False),
        ("0.9.1", "dead_key", {f"{REF}.fsdp_config.param_offload": True}, False),
        ("0.9.1", "dead_key", {"trainer.use_v1": False, "trainer.balance_batch": False}, False),
        ("0.7.1", "reward_keys_moved", {"custom_reward_function.path": "r.py"}, False),
        ("0.7.1", "rollout_engine", {f"{ROLLOUT}.name": "hf"}, False),
        ("0.9.1", "kl_in_reward_off", {"algorithm.kl_ctrl.kl_coef": 0.0}, False),
        (
            "0.9.1",
            "kl_in_reward_off",
            {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.1},
            False,
        ),
        ("0.9.1", "expandable_segments", {f"{ROLLOUT}.free_cache_engine": False}, False),
    ],
)
def test_what_holds_for_a_version_or_beside_another_value(version, rule, values, applies):
    assert (rule in found_ids(version=version, values=values)) is applies
