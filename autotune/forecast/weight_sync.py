"""What moving the trained weights into the rollout engine needs on top of the two engines' weights."""

from __future__ import annotations

from autotune.forecast.engine_shape import EngineShape
from autotune.forecast.hardware import GB
from autotune.forecast.keys import ROLLOUT, Flat, number
from autotune.forecast.model_facts import ModelFacts

_BUCKET_MB = 2048.0
"""verl 0.9.1 trainer/config rollout.checkpoint_engine.update_weights_bucket_megabytes."""


def weight_sync_terms(flat: Flat, model: ModelFacts, shape: EngineShape) -> dict[str, float]:
    """GB of the transfer: the bucket, and the parameter that is being gathered whole.

    The bucket is the sender's, shared with the receiver by CUDA IPC.

    verl 0.9.1 workers/rollout/vllm_rollout/bucketed_weight_transfer.py:100-200 (bucket) and
    workers/engine/fsdp/transformer_impl.py:1035-1045 (`full_tensor`).
    """
    bucket = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
    older = f"{ROLLOUT}.update_weights_bucket_megabytes"
    bucket_gb = number(flat, bucket, number(flat, older, _BUCKET_MB)) / 1024.0
    if shape.lora_rank:
        # Only the adapters travel after the first time.
        return {"transfer_bucket": bucket_gb}
    whole = model.vocab * model.hidden * shape.parameter_bytes / GB
    return {"transfer_bucket": bucket_gb, "gathered_parameter": whole}
