"""Per-process GPU memory through the real bindings and a stub driver."""

import os
import subprocess
import sys

from autotune.forecast.hardware import GB

HEAD = "from autotune.forecast.device_memory import DeviceMemory\n"
TWO = f"gpu 0 GPU-a {80 * GB} {30 * GB} 0\ngpu 1 GPU-b {80 * GB} {9 * GB} 0\n"
RUNNING = f"process 0 11 {10 * GB}\nprocess 0 12 {5 * GB}\nprocess 0 99 {15 * GB}\nprocess 1 11 {2 * GB}\n"


def test_only_the_given_processes_count_on_every_gpu(ask_nvml):
    program = HEAD + "print(json.dumps(DeviceMemory().used_gb_by_gpu({11, 12})))"
    assert ask_nvml(TWO + RUNNING, program) == {"GPU-a": 15.0, "GPU-b": 2.0}


def test_gpus_that_they_do_not_use_are_left_out(ask_nvml):
    program = HEAD + "print(json.dumps(DeviceMemory().used_gb_by_gpu([12, 4711])))"
    assert ask_nvml(TWO + RUNNING, program) == {"GPU-a": 5.0}


def test_memory_that_the_driver_does_not_tell_is_bounded_by_the_gpus(ask_nvml):
    program = HEAD + "print(json.dumps(DeviceMemory().used_gb_by_gpu({11})))"
    assert ask_nvml(TWO + "process 0 11 NA\n", program) == {"GPU-a": 30.0}


def test_given_back_when_the_processes_are_gone(ask_nvml):
    program = HEAD + (
        "with DeviceMemory() as memory:\n"
        "    before = memory.free_of({11, 12}), memory.used_gb_in_all()\n"
        f"    STATE.write_text({f'gpu 0 GPU-a {80 * GB} {GB} 0'!r})\n"
        "    print(json.dumps([before, [memory.free_of({11, 12}), memory.used_gb_in_all()]]))\n"
    )
    before, after = ask_nvml(TWO + RUNNING, program)
    assert before == [False, {"GPU-a": 30.0, "GPU-b": 9.0}]
    assert after == [True, {"GPU-a": 1.0}]


def test_partitioned_gpus_are_named_and_left_out(ask_nvml):
    program = HEAD + (
        "memory = DeviceMemory()\n"
        "print(json.dumps([memory.left_out, memory.capacity_gb_by_gpu(), memory.used_gb_by_gpu({11})]))"
    )
    state = TWO.replace(f"{9 * GB} 0", f"{9 * GB} 1") + RUNNING
    assert ask_nvml(state, program) == [["GPU-b"], {"GPU-a": 80.0}, {"GPU-a": 10.0}]


def test_closed_answers_with_nothing(ask_nvml):
    program = HEAD + (
        "memory = DeviceMemory(); memory.close(); memory.close()\n"
        "print(json.dumps([memory.used_gb_by_gpu({11}), memory.free_of({11})]))"
    )
    assert ask_nvml(TWO + RUNNING, program) == [{}, True]


def test_no_driver_is_no_error(stub_folder):
    program = HEAD + "memory = DeviceMemory(); print(memory.used_gb_by_gpu({1}), memory.free_of({1}))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stub_folder)}
    environment.pop("STUB_NVML_STATE", None)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == ["{}", "True"]
