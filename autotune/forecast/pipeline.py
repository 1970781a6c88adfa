"""How Megatron spreads a model's layers over its pipeline stages, and how many micro batches each holds.

Megatron-Core transformer/transformer_block.py, get_num_layers_to_build; without virtual stages.
"""

from __future__ import annotations

import math

from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.model_facts import ModelFacts


def stages_layers(model: ModelFacts, shape: EngineShape) -> list[int]:
    """Layers of each stage, first to last.

    Embedding and loss count as a layer where the configuration says so; the first and the last stage may
    have a number of their own, and the others share the rest.
    """
    stages = shape.pipeline_parallel
    own = {0: shape.first_stage_layers, stages - 1: shape.last_stage_layers}
    own = {stage: layers for stage, layers in own.items() if layers}
    if own and stages > 1:
        each = math.ceil((model.layers - sum(own.values())) / max(stages - len(own), 1))
        return [own.get(stage, each) for stage in range(stages)]
    each = math.ceil((model.layers + shape.embedding_as_layer + shape.loss_as_layer) / stages)
    layers = [each] * stages
    layers[0] -= shape.embedding_as_layer
    layers[-1] -= shape.loss_as_layer
    return layers


def layers_in_flight(model: ModelFacts, shape: EngineShape) -> int:
    """The most layers, times the micro batches whose activations they keep, that one stage has to hold.

    1F1B keeps one micro batch more at each stage before the last (Narayanan et al., arXiv:2104.04473,
    section 2.2).
    """
    return max(
        layers * (shape.pipeline_parallel - stage) for stage, layers in enumerate(stages_layers(model, shape))
    )
