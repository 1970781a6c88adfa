import pytest

from autotune.forecast.memory import USABLE_FRAC, forecast
from autotune.forecast.solve import Machine, largest_that_fits
from tests.forecast.builders import ACTOR, QWEN_7B, ROLLOUT, flat

MACHINE = Machine(gpu_memory_gb=79.65, gpus=8)
LIMIT_GB = USABLE_FRAC * 79.65


@pytest.mark.parametrize(
    ("changes", "key", "phase"),
    [
        (
            {"data.train_batch_size": 8192, f"{ACTOR}.ppo_mini_batch_size": 8192},
            "ppo_micro_batch_size_per_gpu",
            "update_actor",
        ),
        (
            {
                f"{ACTOR}.use_dynamic_bsz": True,
                f"{ACTOR}.ppo_mini_batch_size": 8192,
                "data.train_batch_size": 8192,
            },
            "ppo_max_token_len_per_gpu",
            "update_actor",
        ),
    ],
)
def test_the_next_larger_size_would_not_fit(changes, key, phase):
    found = largest_that_fits(flat(changes), QWEN_7B, MACHINE)
    key = f"{ACTOR}.{key}"
    at, over = (
        forecast({**flat(changes), key: found[key] + more}, QWEN_7B, 79.65, 8).peak_of(phase)
        for more in (0, 1)
    )
    assert at <= LIMIT_GB < over


def test_utilisation_leaves_room_for_what_stays_resident():
    alone = largest_that_fits(flat(), QWEN_7B, MACHINE)[f"{ROLLOUT}.gpu_memory_utilization"]
    offloaded = largest_that_fits(
        flat({f"{ACTOR}.fsdp_config.param_offload": True, f"{ACTOR}.fsdp_config.optimizer_offload": True}),
        QWEN_7B,
        MACHINE,
    )[f"{ROLLOUT}.gpu_memory_utilization"]
    assert 0.5 < alone < offloaded < 1.0


def test_a_size_of_which_none_fits_is_left_out():
    found = largest_that_fits(flat(), QWEN_7B, Machine(gpu_memory_gb=8.0, gpus=8))
    assert f"{ACTOR}.ppo_micro_batch_size_per_gpu" not in found


def test_a_micro_batch_stops_at_the_ranks_share():
    assert largest_that_fits(flat(), QWEN_7B, MACHINE)[f"{ACTOR}.ppo_micro_batch_size_per_gpu"] == 64 * 5 / 8
