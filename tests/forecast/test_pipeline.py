import dataclasses

import pytest

from autotune.forecast.engine_shape import actor_shape
from autotune.forecast.megatron import megatron_logits
from autotune.forecast.pipeline import layers_in_flight, stages_layers
from tests.forecast.builders import ACTOR, QWEN_7B, QWEN_30B_A3B, megatron

TRANSFORMER = f"{ACTOR}.megatron.override_transformer_config"


def shape(stages, **transformer):
    changes = {f"{TRANSFORMER}.{key}": value for key, value in transformer.items()}
    return actor_shape(megatron({f"{ACTOR}.megatron.pipeline_model_parallel_size": stages, **changes}), 32)


@pytest.mark.parametrize(
    ("transformer", "expected"),
    [
        ({}, [12, 12, 12, 12]),
        ({"num_layers_in_first_pipeline_stage": 9}, [9, 13, 13, 13]),
        (
            {"num_layers_in_first_pipeline_stage": 14, "num_layers_in_last_pipeline_stage": 10},
            [14, 12, 12, 10],
        ),
    ],
)
def test_layers_of_each_stage(transformer, expected):
    assert stages_layers(QWEN_30B_A3B, shape(4, **transformer)) == expected


def test_embedding_and_loss_take_a_layers_place():
    # Qwen3-235B-A22B: 94 layers over eight stages, as verl's example spreads them.
    model = dataclasses.replace(QWEN_30B_A3B, layers=94)
    spread = shape(8, account_for_embedding_in_pipeline_split=True, account_for_loss_in_pipeline_split=True)
    assert stages_layers(model, spread) == [11, 12, 12, 12, 12, 12, 12, 11]
    assert layers_in_flight(model, spread) == 11 * 8


def test_an_even_first_stage_keeps_as_many_micro_batches_as_there_are_stages():
    assert layers_in_flight(QWEN_7B, shape(4)) == QWEN_7B.layers
    assert layers_in_flight(QWEN_7B, shape(1)) == QWEN_7B.layers


def test_a_short_first_stage_leaves_the_peak_to_the_second():
    assert layers_in_flight(QWEN_30B_A3B, shape(4, num_layers_in_first_pipeline_stage=9)) == 13 * 3


def test_bytes_of_a_word_of_the_vocabulary_parallel_head():
    plain = dataclasses.replace(shape(1), tensor_parallel=1)
    words = 1000 * QWEN_7B.vocab

    def bytes_each(*, entropy, training):
        return megatron_logits(QWEN_7B, plain, 1000, entropy=entropy, training=training) / words

    assert bytes_each(entropy=False, training=True) == bytes_each(entropy=False, training=False) == 6
    assert bytes_each(entropy=True, training=False) == 8
    assert bytes_each(entropy=True, training=True) == 10


def test_the_fused_head_never_holds_the_logits():
    fused = dataclasses.replace(shape(1), fused_kernels=True)
    logits = 16384 * QWEN_7B.vocab / fused.tensor_parallel * 2
    assert megatron_logits(QWEN_7B, fused, 16384, entropy=True, training=True) < logits
    assert megatron_logits(QWEN_7B, fused, 16384, entropy=True, training=False) < 0.01 * logits
