"""Length bucketing: micro batches of samples of similar length, so that less of them is padding.

With a fixed micro-batch size verl cuts a rank's share in the order of arrival (verl 0.9.1
workers/engine/utils.py:123-131), and a model without `use_remove_padding` pads each micro batch to its
longest sample. Sorting the share by length first changes which samples share a micro batch, never which
ones share an update: gradients are the same up to rounding, as the loss is normalised over the whole
update (transformer_impl.py:729-736). With `use_dynamic_bsz` verl itself packs by length and this does
nothing; with `use_remove_padding` there is no padding to save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

WORKER_MODULE = "verl.workers.engine.utils"


def turn_on() -> None:
    """Sort the shares that this worker cuts; its engines import the two functions later."""

    def patch(module: Any) -> None:
        module.prepare_micro_batches = cutting_by_length(
            module.prepare_micro_batches, module.tu.index_select_tensor_dict, module.tu.get_non_tensor_data
        )
        module.postprocess_batch_func = in_the_old_order(
            module.postprocess_batch_func, module.restore_dynamic_batch, module.tu.get_non_tensor_data
        )

    after_import(WORKER_MODULE, patch)


def cutting_by_length(
    prepare: Callable[..., Any], select: Callable[..., Any], get: Callable[..., Any]
) -> Callable[..., Any]:
    """Wraps verl's `prepare_micro_batches`: samples are sorted by length first where the size is fixed.

    Returns, like verl with dynamic batches, the micro batches and the places their samples came from.
    """

    @wraps(prepare)
    def cut(data: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if not _is_sortable(data, get):
            result: tuple[Any, Any] = prepare(data, *args, **kwargs)
            return result
        order = by_length(data["input_ids"].offsets().diff().tolist())
        micro_batches, _ = prepare(select(data, order), *args, **kwargs)
        size = len(order) // len(micro_batches)
        return micro_batches, [order[start : start + size] for start in range(0, len(order), size)]

    return cut


def in_the_old_order(
    postprocess: Callable[..., Any], restore: Callable[..., Any], get: Callable[..., Any]
) -> Callable[..., Any]:
    """Wraps verl's `postprocess_batch_func`: puts the outputs of sorted samples back where they belong.

    verl does so itself for dynamic batches only.
    """

    @wraps(postprocess)
    def put_back(output_lst: Any, indices: Any, data: Any) -> Any:
        output = postprocess(output_lst, indices, data)
        if indices is not None and not get(data=data, key="use_dynamic_bsz", default=True):
            outputs = output["model_output"]
            output["model_output"] = {key: restore(value, indices) for key, value in outputs.items()}
        return output

    return put_back


def by_length(lengths: Sequence[int]) -> list[int]:
    """Places of the samples from the longest on: a micro batch that does not fit fails at once."""
    return sorted(range(len(lengths)), key=lambda place: -lengths[place])


def _is_sortable(data: Any, get: Callable[..., Any]) -> bool:
    """A fixed micro-batch size, and samples that need not stay together."""
    is_dynamic = get(data=data, key="use_dynamic_bsz", default=True)
    is_grouped = get(data=data, key="force_group_size", default=1) != 1
    return not is_dynamic and not is_grouped and data["input_ids"].is_nested
