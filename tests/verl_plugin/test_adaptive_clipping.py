"""Adaptive clipping on real torch tensors, plain and sharded."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from autotune.verl_plugin.adaptive_clipping import SMALLEST_NORM, clip, clipping_first

torch = pytest.importorskip("torch")


def parameter(weights, gradient):
    made = torch.nn.Parameter(torch.tensor(weights))
    made.grad = None if gradient is None else torch.tensor(gradient)
    return made


def test_rows_over_their_share_are_scaled_down_and_others_stay():
    matrix = parameter([[3.0, 4.0], [3.0, 4.0]], [[6.0, 8.0], [0.03, 0.04]])
    assert clip([matrix], 0.1) == 1
    assert matrix.grad[0].tolist() == pytest.approx([0.3, 0.4])
    assert matrix.grad[1].tolist() == pytest.approx([0.03, 0.04])


def test_a_vector_is_one_unit():
    vector = parameter([3.0, 4.0], [3.0, 0.0])
    assert clip([vector], 0.1) == 1
    assert vector.grad.tolist() == pytest.approx([0.5, 0.0])


def test_a_unit_of_zeros_can_still_grow():
    zeros = parameter([[0.0, 0.0]], [[1.0, 0.0]])
    clip([zeros], 0.1)
    assert zeros.grad.tolist() == [[pytest.approx(0.1 * SMALLEST_NORM), 0.0]]


def test_frozen_parameters_and_gradients_that_are_not_finite_are_left_alone():
    frozen, broken = parameter([1.0], None), parameter([[1.0, 1.0]], [[float("nan"), 1.0]])
    assert clip([frozen, broken], 0.01) == 0
    assert torch.isnan(broken.grad[0, 0])


def test_a_half_precision_gradient_keeps_its_type():
    half = torch.nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.bfloat16))
    half.grad = torch.tensor([[6.0, 8.0]], dtype=torch.bfloat16)
    clip([half], 0.1)
    assert half.grad.dtype is torch.bfloat16
    assert half.grad.norm().item() == pytest.approx(0.5, rel=0.02)


def test_the_step_comes_after_and_returns_what_verl_returns():
    matrix = parameter([[3.0, 4.0]], [[6.0, 8.0]])
    engine = SimpleNamespace(module=SimpleNamespace(parameters=lambda: iter([matrix])))
    step = clipping_first(lambda engine: next(engine.module.parameters()).grad.norm().item(), 0.1)
    assert step(engine) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (SimpleNamespace(scaler=object()), "fp16"),
        (SimpleNamespace(module=SimpleNamespace(clip_grad_norm_=None)), "fsdp2"),
    ],
)
def test_what_cannot_be_clipped_by_units_is_refused(engine, reason):
    with pytest.raises(ValueError, match=reason):
        clipping_first(lambda engine: 0.0, 0.1)(engine)


SHARDED = """
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from autotune.verl_plugin.adaptive_clipping import clip
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
def shard(weights, gradient):
    made = torch.nn.Parameter(distribute_tensor(torch.tensor(weights), mesh, [Shard(0)]))
    made.grad = distribute_tensor(torch.tensor(gradient), mesh, [Shard(0)])
    return made
both = [shard([[3.0, 4.0]] * 3, [[6.0, 8.0], [0.03, 0.04], [6.0, 8.0]]), shard([3.0, 4.0], [3.0, 0.0])]
clip(both, 0.1)
print(json.dumps([one.grad.full_tensor().tolist() for one in both]))
dist.destroy_process_group()
"""


@pytest.mark.verl
def test_sharded_parameters_are_clipped_as_whole_ones(tmp_path):
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SHARDED, str(rank), str(tmp_path / "meeting")],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    told = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told[0][1][-2000:]
    # Three rows lie on two ranks unevenly; the vector is cut in two and still one unit.
    for output, _ in told:
        matrix, vector = json.loads(output.splitlines()[-1])
        assert matrix == [pytest.approx([0.3, 0.4]), pytest.approx([0.03, 0.04]), pytest.approx([0.3, 0.4])]
        assert vector == pytest.approx([0.5, 0.0])
