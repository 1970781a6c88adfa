import pytest

from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.lengths import Lengths, expected_lengths, fullest_tokens
from autotune.forecast.workload import micro_batch
from tests.forecast.builders import ACTOR, flat


def test_known_data_have_their_own_lengths_cut_at_the_limits():
    found = expected_lengths(flat({"data.train_files": ["/data/gsm8k/train.parquet"]}))
    assert found.sample_tokens == 389
    short = {"data.train_files": "gsm8k/train.parquet", "data.max_response_length": 64}
    assert expected_lengths(flat(short)).response_tokens == 64


def test_a_mixture_with_unknown_data_is_unknown():
    files = ["/data/gsm8k/train.parquet", "/data/other/train.parquet"]
    assert expected_lengths(flat({"data.train_files": files})).sample_tokens == 0.25 * 2048


def test_the_fullest_micro_batch_nears_the_mean_as_it_grows_and_never_passes_the_limit():
    lengths = Lengths(prompt_tokens=100, response_tokens=300)
    each = [fullest_tokens(flat(), lengths, samples) / samples for samples in (1, 16, 256)]
    assert each == sorted(each, reverse=True)
    assert each[-1] == pytest.approx(400, rel=0.15)
    assert fullest_tokens(flat(), Lengths.at_limit(flat()), 3) == 3 * 2048


def test_padding_makes_every_sample_as_long_as_the_longest():
    lengths = Lengths(prompt_tokens=100, response_tokens=300)
    assert fullest_tokens(flat(), lengths, 16, padded=True) > fullest_tokens(flat(), lengths, 16)


def test_ranks_of_a_sample_share_its_tokens():
    lengths = Lengths(prompt_tokens=100, response_tokens=300, spread=0.0)
    alone, shared = (
        micro_batch(flat(), "update_actor", EngineShape(gpus=8, sequence_parallel=sp), lengths)
        for sp in (1, 4)
    )
    assert shared.tokens == alone.tokens / 4


def test_a_micro_batch_is_never_larger_than_the_ranks_share():
    lengths = Lengths(prompt_tokens=100, response_tokens=300, spread=0.0)
    huge = flat({f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4096})
    found = micro_batch(huge, "update_actor", EngineShape(gpus=8), lengths)
    assert found.tokens == 64 * 5 / 8 * 400
    assert not found.accumulates


def test_the_older_global_micro_batch_counts_over_all_ranks():
    lengths = Lengths(prompt_tokens=100, response_tokens=300, spread=0.0)
    older = flat({f"{ACTOR}.ppo_micro_batch_size_per_gpu": None, f"{ACTOR}.ppo_micro_batch_size": 64})
    assert micro_batch(older, "update_actor", EngineShape(gpus=8), lengths).tokens == 8 * 400
