"""A rank's share as verl hands it to its worker: nested tensors beside plain settings."""

from __future__ import annotations

import importlib
import os
from typing import Any


def verl_workers() -> Any:
    """verl's module of micro batches; importing it takes seconds."""
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    return importlib.import_module("verl.workers.engine.utils")


def share(
    workers: Any,
    lengths: list[int],
    *,
    size: int | None = None,
    budget: int | None = None,
    update: bool = False,
) -> Any:
    """Samples whose ids are (100 x place + position), cut by a fixed size or by a token budget."""
    import torch
    from tensordict import TensorDict

    ids = [torch.arange(length) + 100 * place for place, length in enumerate(lengths)]
    nested = torch.nested.as_nested_tensor(ids, layout=torch.jagged)
    data = TensorDict({"input_ids": nested}, batch_size=[len(lengths)])
    settings: dict[str, Any] = {"use_dynamic_bsz": budget is not None}
    if budget is not None:
        settings["max_token_len_per_gpu"] = budget
    if size is not None:
        settings["micro_batch_size_per_gpu"] = size
    if update:
        settings["global_batch_size"] = len(lengths)
    workers.tu.assign_non_tensor(data, **settings)
    return data
