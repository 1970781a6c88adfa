import json
import os
import subprocess
import sys

ALLOCATE = """
import os, sys, types, torch
from autotune.verl_plugin import memory_cap
distributed = types.ModuleType("verl.utils.distributed")
distributed.__spec__ = None
distributed.initialize_global_process_group_ray = lambda: None
sys.modules[distributed.__name__] = distributed
memory_cap.LATER_IMPORTS = ()  # verl's own take ten seconds
memory_cap.turn_on(0.25, sys.argv[1])
distributed.initialize_global_process_group_ray()
distributed.initialize_global_process_group_ray()  # the reference model's; the cap stays
kept = torch.ones(2**24)  # 64 MB fit
print("fits", flush=True)
torch.ones(2**26)
"""


def test_torch_raises_its_own_error_past_the_cap(tmp_path):
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), "RANK": "1"}
    found = subprocess.run(
        [sys.executable, "-c", ALLOCATE, str(tmp_path / "caps")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == "fits\n"
    assert "DefaultCPUAllocator: can't allocate memory" in found.stderr
    (file,) = os.listdir(tmp_path / "caps")
    worker = json.loads((tmp_path / "caps" / file).read_text())
    assert file == f"rank-1-{worker['pid']}.json"
    assert (worker["rank"], worker["cap_gb"]) == (1, 0.25)
    assert 0.0 < worker["base_rss_gb"] < 4.0
    assert 0.0 < worker["base_data_gb"] < 4.0
    assert worker["create_time_s"] > 0
