import pytest

from autotune.errors import ResourceError
from autotune.forecast.gpu_spec import parse_gpu_spec


@pytest.mark.parametrize(
    ("text", "count", "nodes", "name", "memory_gb"),
    [
        ("8xH100-80GB", 8, 1, "H100", 79.65),
        ("2x8xH20-96GB", 16, 2, "H20", 95.58),
        ("A100", 1, 1, "A100", 80.0),
        ("4xa100-40gb", 4, 1, "A100", 40.0),
        ("8xH200", 8, 1, "H200", 140.4),
        ("2xMI300X-192GB", 2, 1, "MI300X", 192 * 0.99),
    ],
)
def test_specs(text, count, nodes, name, memory_gb):
    spec = parse_gpu_spec(text)
    assert (spec.count, spec.nodes, spec.name) == (count, nodes, name)
    assert spec.memory_gb == pytest.approx(memory_gb)


@pytest.mark.parametrize("text", ["", "8x", "eight H100", "0xH100-80GB", "8xQUANTUM"])
def test_what_is_no_spec_is_said_with_the_form(text):
    with pytest.raises(ResourceError) as error:
        parse_gpu_spec(text)
    assert error.value.faults[0].where == "--gpus"
    assert error.value.faults[0].next_step
