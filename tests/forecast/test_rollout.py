import pytest

from autotune.forecast.memory import forecast
from autotune.forecast.rollout import CONTEXT_GB, CUDA_TOTAL_FRAC, cache_bytes_per_token, rollout_memory
from tests.forecast.builders import QWEN_7B, ROLLOUT, flat

SYNC = {f"{ROLLOUT}.mode": "sync"}


def test_vllm_takes_its_share_of_what_cuda_offers_of_the_device():
    found = rollout_memory(flat(), QWEN_7B, 80.0, held_gb=20.0)
    assert found.budget_gb == pytest.approx(40.0 * CUDA_TOTAL_FRAC)
    assert found.cache_gb == pytest.approx(found.budget_gb - found.weights_gb - found.activations_gb)


def test_sglang_takes_its_share_of_what_is_free():
    found = rollout_memory(flat({f"{ROLLOUT}.name": "sglang"}), QWEN_7B, 80.0, held_gb=20.0)
    assert found.budget_gb - found.activations_gb == pytest.approx((80.0 * CUDA_TOTAL_FRAC - 20.0) / 2)


def test_in_the_trainers_process_what_it_holds_counts_into_the_share():
    found = rollout_memory(flat(SYNC), QWEN_7B, 80.0, held_gb=20.0)
    assert found.budget_gb == pytest.approx(40.0 * CUDA_TOTAL_FRAC - 20.0)


def test_an_engine_in_the_trainers_process_has_no_context_of_its_own():
    def contexts_gb(changes):
        phases = forecast(flat(changes), QWEN_7B, 79.65, 8).phases
        return {
            one.phase: one.terms["contexts"] for one in phases if one.phase in ("rollout", "update_actor")
        }

    apart, together = contexts_gb({}), contexts_gb(SYNC)
    assert {apart[phase] - together[phase] for phase in apart} == {CONTEXT_GB}


def test_cache_of_a_token():
    # 28 layers, 4 key heads of 128, key and value, two bytes.
    assert cache_bytes_per_token(QWEN_7B, 1) == 2 * 28 * 4 * 128 * 2
    assert cache_bytes_per_token(QWEN_7B, 8) == 2 * 28 * 128 * 2


def test_without_sleep_everything_stays():
    found = rollout_memory(flat({f"{ROLLOUT}.free_cache_engine": False}), QWEN_7B, 80.0)
    assert found.asleep_gb == found.budget_gb + found.graphs_gb
