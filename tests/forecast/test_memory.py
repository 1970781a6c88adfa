import time

import pytest

from autotune.forecast.forecast_json import forecast_json
from autotune.forecast.lengths import Lengths
from autotune.forecast.memory import forecast
from autotune.judge.phases import PHASES
from tests.forecast.builders import ACTOR, QWEN_7B, QWEN_30B_A3B, ROLLOUT, flat, megatron


def peak(phase, changes=None, model=QWEN_7B, gpus=8, make=flat, **more):
    return forecast(make(changes), model, 79.65, gpus, **more).peak_of(phase)


def terms(phase, changes=None, model=QWEN_7B, make=flat):
    made = forecast(make(changes), model, 79.65, 8)
    return next(one.terms for one in made.phases if one.phase == phase)


def test_phases_have_the_judges_names_and_positive_terms():
    made = forecast(flat({"algorithm.adv_estimator": "gae"}), QWEN_7B, 79.65, 8)
    assert [one.phase for one in made.phases if one.phase not in PHASES] == []
    assert {"values", "update_critic", "ref_log_prob"} <= {one.phase for one in made.phases}
    assert all(gb > 0 for one in made.phases for gb in one.terms.values())
    assert all(one.peak_gb == pytest.approx(sum(one.terms.values())) for one in made.phases)


def test_an_eight_gpu_7b_has_the_states_of_zero_3():
    found = terms("update_actor")
    whole_gb = QWEN_7B.parameters() / 2**30
    assert found["actor_parameters"] == pytest.approx(whole_gb * 4 / 8)
    assert found["actor_optimizer"] == pytest.approx(whole_gb * 8 / 8)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({f"{ACTOR}.ppo_micro_batch_size_per_gpu": 32}, "update_actor"),
        ({f"{ACTOR}.entropy_coeff": 0.001}, "update_actor"),
        ({"actor_rollout_ref.model.enable_gradient_checkpointing": False}, "update_actor"),
        ({"actor_rollout_ref.model.use_remove_padding": False}, "update_actor"),
        ({f"{ACTOR}.fsdp_config.reshard_after_forward": False}, "update_actor"),
        ({f"{ACTOR}.fsdp_config.fsdp_size": 4}, "update_actor"),
        ({f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 64}, "old_log_prob"),
        ({f"{ROLLOUT}.temperature": 0.7}, "old_log_prob"),
        ({f"{ACTOR}.fsdp_config.use_torch_compile": False}, "old_log_prob"),
        ({"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 64}, "ref_log_prob"),
        ({f"{ROLLOUT}.gpu_memory_utilization": 0.7}, "rollout"),
        ({f"{ROLLOUT}.free_cache_engine": False}, "update_actor"),
        ({f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 4096}, "weight_sync"),
        ({"data.max_response_length": 4096}, "update_actor"),
    ],
)
def test_what_raises_a_peak(changes, phase):
    assert peak(phase, changes) > peak(phase)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        (
            {f"{ACTOR}.fsdp_config.param_offload": True, f"{ACTOR}.fsdp_config.optimizer_offload": True},
            "rollout",
        ),
        ({"actor_rollout_ref.model.lora_rank": 32}, "update_actor"),
        (
            {"actor_rollout_ref.model.use_fused_kernels": True, f"{ACTOR}.entropy_coeff": 0.001},
            "update_actor",
        ),
        ({f"{ACTOR}.ulysses_sequence_parallel_size": 4}, "update_actor"),
        ({f"{ROLLOUT}.enforce_eager": True}, "rollout"),
        ({f"{ROLLOUT}.name": "sglang"}, "rollout"),
    ],
)
def test_what_lowers_a_peak(changes, phase):
    base = {f"{ACTOR}.entropy_coeff": 0.001} if "actor_rollout_ref.model.use_fused_kernels" in changes else {}
    assert peak(phase, changes) < peak(phase, base)


def test_a_token_budget_bounds_a_micro_batch_whatever_the_lengths():
    small, large = (
        {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": tokens}
        for tokens in (4096, 8192)
    )
    at_limit = Lengths.at_limit(flat())
    assert peak("update_actor", small, lengths=at_limit) < peak("update_actor", large, lengths=at_limit)


def test_lora_has_no_reference_of_its_own_and_little_optimizer():
    found = terms("update_actor", {"actor_rollout_ref.model.lora_rank": 32})
    assert found["actor_optimizer"] < 0.1
    assert "reference" not in forecast(flat({"actor_rollout_ref.model.lora_rank": 32}), QWEN_7B, 80, 8).host


def test_a_rollout_engine_without_room_for_one_sequence_does_not_fit():
    made = forecast(flat({f"{ROLLOUT}.gpu_memory_utilization": 0.08}), QWEN_7B, 79.65, 8)
    assert not made.rollout.can_serve
    assert not made.fits


def test_host_memory_counts_only_where_it_is_known():
    offload = {f"{ACTOR}.fsdp_config.param_offload": True, f"{ACTOR}.fsdp_config.optimizer_offload": True}
    assert forecast(flat(offload), QWEN_7B, 79.65, 8).fits
    assert not forecast(flat(offload), QWEN_7B, 79.65, 8, host_memory_gb=64.0).fits


def test_megatron_cuts_by_tensor_and_pipeline_and_keeps_fp32_gradients():
    found = terms("update_actor", make=megatron)
    parameters = found["actor_parameters"]
    assert parameters == pytest.approx(QWEN_7B.parameters() * 2 / 4 / 2**30, rel=0.1)
    assert found["gradients"] == pytest.approx(2 * parameters)


def test_megatron_expert_parallelism_and_recomputation_save():
    section = f"{ACTOR}.megatron"
    spread = {f"{section}.expert_model_parallel_size": 4, f"{section}.expert_tensor_parallel_size": 1}
    recompute = {f"{section}.override_transformer_config.recompute_granularity": "full"}
    plain = peak("update_actor", model=QWEN_30B_A3B, make=megatron)
    assert peak("update_actor", spread, QWEN_30B_A3B, make=megatron) < plain
    assert peak("update_actor", recompute, QWEN_30B_A3B, make=megatron) < plain


def test_megatrons_hybrid_optimizer_lives_on_the_host():
    hybrid = {f"{ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload": True}
    assert "actor_optimizer" not in terms("update_actor", hybrid, make=megatron)
    host = forecast(megatron(hybrid), QWEN_7B, 79.65, 8).host
    # fp32 master, two moments and a gradient of every parameter, shared by the node's eight GPUs.
    assert host["actor_offload"] == pytest.approx(QWEN_7B.parameters() * 16 / 2**30, rel=0.1)


def test_a_capped_cpu_worker_holds_the_trainers_models_alone():
    found = forecast(flat({"trainer.device": "cpu"}), QWEN_7B, 0.36, 1)
    assert all("rollout" not in name and name != "contexts" for one in found.phases for name in one.terms)
    assert found.rollout.can_serve


def test_the_answer_of_check():
    made = forecast(flat(), QWEN_7B, 79.65, 8)
    answer = forecast_json(made, {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 40})
    assert answer["fits"] is True
    assert answer["capacity_gb"] == 79.65
    assert answer["largest"] == {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 40}
    first = answer["phases"][0]
    assert set(first) == {"phase", "peak_gb", "terms"}
    assert first["peak_gb"] == pytest.approx(sum(first["terms"].values()), abs=0.01)


def test_it_is_quick():
    started = time.perf_counter()
    forecast(flat(), QWEN_7B, 79.65, 8)
    assert time.perf_counter() - started < 0.1
