"""The machine's inventory, against the stub and against this machine."""

from dataclasses import asdict

import psutil

from autotune.forecast.hardware import GB, gpu_inventory, host

TWO = f"gpu 0 GPU-a {80 * GB} {GB} 0\ngpu 1 GPU-b {80 * GB} 0 1\n"
PROGRAM = """
from dataclasses import asdict
from autotune.forecast.hardware import driver_version, gpu_inventory
print(json.dumps({"gpus": [asdict(gpu) for gpu in gpu_inventory()], "driver": driver_version()}))
"""


def test_gpus_as_nvml_tells_them(ask_nvml):
    answer = ask_nvml(TWO, PROGRAM)
    name = "NVIDIA Stub 80GB"
    assert answer["gpus"] == [
        {"index": 0, "uuid": "GPU-a", "name": name, "total_gb": 80.0, "used_gb": 1.0, "partitioned": False},
        {"index": 1, "uuid": "GPU-b", "name": name, "total_gb": 80.0, "used_gb": 0.0, "partitioned": True},
    ]
    assert answer["driver"] == "570.00"


def test_a_driver_without_gpus_is_an_empty_inventory(ask_nvml):
    assert ask_nvml("", PROGRAM)["gpus"] == []


def test_mig_unknown_to_the_card_is_no_mig(ask_nvml):
    (gpu,) = ask_nvml(f"gpu 0 GPU-a {8 * GB} 0 2\n", PROGRAM)["gpus"]
    assert gpu["partitioned"] is False


def test_this_machine():
    here = host()
    assert 1 <= here.cpu_count <= (psutil.cpu_count() or 1)
    assert here.memory_gb * GB == psutil.virtual_memory().total
    assert all(asdict(gpu)["total_gb"] > 0 for gpu in gpu_inventory())
