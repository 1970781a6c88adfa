import pytest

from autotune.judge.patterns import free_memory_gb, kv_cache_too_small, sign_of

FREE = (
    "ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired GPU memory"
    " utilization (0.9, 19.84 GiB)."
)
SMALL_CACHE = (
    "ValueError: To serve at least one request with the model's max seq len (131072), 16.00 GiB is needed"
)


def test_figures_of_the_engines_start():
    assert free_memory_gb(FREE) == (19.77, 22.05)
    assert free_memory_gb(SMALL_CACHE) is None


@pytest.mark.parametrize(("line", "grow"), [(SMALL_CACHE, True), (FREE, False), ("", False)])
def test_whether_the_engine_wants_more_or_less_memory(line, grow):
    assert kv_cache_too_small(line) is grow


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (SMALL_CACHE, 2),
        (FREE, 3),
        ("torch.OutOfMemoryError: CUDA out of memory.", 4),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", 5),
        ("AssertionError: 5 and 3", 1),
    ],
)
def test_special_texts_keep_their_level_beside_general_ones(line, level):
    assert sign_of(line).level == level
