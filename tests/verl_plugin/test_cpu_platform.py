import json
import subprocess
import sys

import pytest

ASK = """
import importlib.metadata, json, sys
import verl
from verl.utils.device import get_device_id, get_device_name, get_resource_name, get_torch_device
import torch.distributed.fsdp as fsdp
import verl.trainer.ppo.v1.replay_buffer as replay_buffer
import verl.trainer.ppo.v1.trainer_base as trainer_base
import verl.workers.engine.fsdp.transformer_impl as fsdp_engine
device = get_torch_device()
print(json.dumps({
    "device": [get_device_name(), get_device_id(), get_resource_name(), device.get_device_name()],
    "peak": device.max_memory_allocated() > 0,
    "pinned": fsdp.CPUOffloadPolicy(pin_memory=True).pin_memory,
    "vllm": importlib.metadata.version("vllm").endswith("+cpu"),
    "vllm_imported": "vllm" in sys.modules,
    "marks": trainer_base.marked_timer.marks_phases,
    "watched": [hasattr(getattr(trainer_base.PPOTrainer, name), "__wrapped__")
                for name in ("_next_train_batch", "_balance_batch", "_compute_metrics")],
    "advantage": hasattr(trainer_base.compute_advantage_for_multi_trajectories, "__wrapped__"),
    "engine": {
        "cuts": hasattr(fsdp_engine.prepare_micro_batches, "__wrapped__"),
        "puts_back": hasattr(fsdp_engine.postprocess_batch_func, "__wrapped__"),
        "clips": hasattr(fsdp_engine.FSDPEngine.optimizer_step, "__wrapped__"),
    },
    "polls": replay_buffer.ReplayBuffer.__init__.__code__.co_name,
}))
"""


@pytest.mark.verl
@pytest.mark.timeout(180)
def test_verl_finds_a_cpu_device_and_the_patches_are_in_place(tmp_path):
    pytest.importorskip("verl")
    environment = {
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "VERL_USE_EXTERNAL_MODULES": "autotune.verl_plugin.register",
        "AUTOTUNE_CPU": "1",
        "AUTOTUNE_PHASES_PATH": str(tmp_path / "phases.jsonl"),
        "AUTOTUNE_RANK_LOAD_PATH": str(tmp_path / "rank_load.jsonl"),
        "AUTOTUNE_LENGTH_BUCKETS": "sorted",
        "AUTOTUNE_ADAPTIVE_CLIPPING": "0.01",
        "AUTOTUNE_TOKEN_CHECK": "first_step",
        "AUTOTUNE_REPLAY_POLL_S": "0.05",
        "AUTOTUNE_TRIAL_KEY": "key",
    }
    found = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert json.loads(found.stdout.splitlines()[-1]) == {
        "device": ["cpu", "cpu", "GPU", "CPU"],
        "peak": True,
        "pinned": False,
        "vllm": True,
        "vllm_imported": False,
        "marks": True,
        "watched": [True, True, True],
        "advantage": True,
        "engine": {"cuts": True, "puts_back": True, "clips": True},
        "polls": "construct_polling_faster",
    }
