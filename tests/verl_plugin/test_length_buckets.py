"""Sorted micro batches on verl's own functions: less padding, the same samples, outputs back in order."""

import pytest

from autotune.verl_plugin.length_buckets import by_length, cutting_by_length, in_the_old_order
from tests.verl_plugin.verl_share import share, verl_workers

LENGTHS = [3, 9, 4, 8, 2, 7]


def test_the_longest_sample_comes_first_and_equals_keep_their_order():
    assert by_length([3, 9, 3, 8]) == [1, 3, 0, 2]


@pytest.fixture(scope="module")
def workers():
    return verl_workers()


@pytest.fixture
def cut(workers):
    tu = workers.tu
    return cutting_by_length(
        workers.prepare_micro_batches, tu.index_select_tensor_dict, tu.get_non_tensor_data
    )


def lengths_of(micro_batches):
    return [batch["input_ids"].offsets().diff().tolist() for batch in micro_batches]


@pytest.mark.verl
def test_micro_batches_hold_samples_of_similar_length(workers, cut):
    data = share(workers, LENGTHS, size=2)
    plain, _ = workers.prepare_micro_batches(data=data)
    assert lengths_of(plain) == [[3, 9], [4, 8], [2, 7]]
    micro_batches, indices = cut(data=data, dp_group=None)
    assert lengths_of(micro_batches) == [[9, 8], [7, 4], [3, 2]]
    assert indices == [[1, 3], [5, 2], [0, 4]]
    assert [batch["micro_batch_size_per_gpu"] for batch in micro_batches] == [2, 2, 2]


@pytest.mark.verl
def test_dynamic_batches_stay_verls_own(workers, cut):
    data = share(workers, LENGTHS, budget=16)
    expected, places = workers.prepare_micro_batches(data=data)
    found, same_places = cut(data=data)
    assert lengths_of(found) == lengths_of(expected)
    assert same_places == places


@pytest.mark.verl
def test_outputs_come_back_in_the_old_order(workers, cut):
    data = share(workers, LENGTHS, size=2)
    put_back = in_the_old_order(
        workers.postprocess_batch_func, workers.restore_dynamic_batch, workers.tu.get_non_tensor_data
    )
    micro_batches, indices = cut(data=data)
    outputs = [{"model_output": {"log_probs": batch["input_ids"]}, "loss": 1.0} for batch in micro_batches]
    found = put_back(output_lst=outputs, indices=indices, data=data)
    ids = [sample.tolist() for sample in found["model_output"]["log_probs"].unbind()]
    assert ids == [sample.tolist() for sample in data["input_ids"].unbind()]
    assert found["loss"] == [1.0, 1.0, 1.0]
