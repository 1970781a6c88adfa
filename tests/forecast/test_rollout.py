import pytest

from autotune.forecast.rollout import cache_bytes_per_token, rollout_memory
from tests.forecast.builders import QWEN_7B, ROLLOUT, flat


def test_vllm_takes_its_share_of_the_whole_device():
    found = rollout_memory(flat(), QWEN_7B, 80.0, free_gb=60.0)
    assert found.budget_gb == 40.0
    assert found.cache_gb == pytest.approx(40.0 - found.weights_gb - found.activations_gb)


def test_sglang_takes_its_share_of_what_is_free():
    found = rollout_memory(flat({f"{ROLLOUT}.name": "sglang"}), QWEN_7B, 80.0, free_gb=60.0)
    assert found.budget_gb - found.activations_gb == 30.0


def test_in_the_trainers_process_its_tensors_count_into_the_share():
    assert rollout_memory(flat({f"{ROLLOUT}.mode": "sync"}), QWEN_7B, 80.0, free_gb=60.0).budget_gb == 20.0


def test_cache_of_a_token():
    # 28 layers, 4 key heads of 128, key and value, two bytes.
    assert cache_bytes_per_token(QWEN_7B, 1) == 2 * 28 * 4 * 128 * 2
    assert cache_bytes_per_token(QWEN_7B, 8) == 2 * 28 * 128 * 2


def test_without_sleep_everything_stays():
    found = rollout_memory(flat({f"{ROLLOUT}.free_cache_engine": False}), QWEN_7B, 80.0)
    assert found.asleep_gb == found.budget_gb + found.graphs_gb
