import json
import os
from dataclasses import dataclass, field

from autotune.trial.memory_sampler import CappedWorkers, Gpus, MemorySampler, Reading


@dataclass
class Scripted:
    """Devices that hold what the test says."""

    readings: dict = field(default_factory=dict)

    def read(self, pids):
        return self.readings


def sampler_with(devices):
    return MemorySampler(devices, supervisor_pid=os.getpid())


def test_the_peak_since_the_last_question_is_kept():
    devices = Scripted()
    sampler = sampler_with(devices)
    for at_s, used_gb in enumerate([1.0, 5.0, 2.0]):
        devices.readings = {"gpu:0": Reading(used_gb, 80.0)}
        sampler.sample(float(at_s), "update_actor")
    (sample,) = sampler.take()
    assert (sample.used_gb, sample.at_s, sample.capacity_gb) == (5.0, 1.0, 80.0)
    assert sampler.take() == []


def test_phases_and_devices_are_kept_apart():
    devices = Scripted({"gpu:0": Reading(1.0, 80.0), "gpu:1": Reading(2.0, 80.0)})
    sampler = sampler_with(devices)
    sampler.sample(1.0, "rollout")
    sampler.sample(2.0, "update_actor")
    assert [(sample.phase, sample.device) for sample in sampler.take()] == [
        ("rollout", "gpu:0"),
        ("rollout", "gpu:1"),
        ("update_actor", "gpu:0"),
        ("update_actor", "gpu:1"),
    ]


def note_worker(folder, pid, **values):
    worker = {"pid": pid, "rank": 0, "base_rss_gb": 0.0, "base_data_gb": 0.0, "cap_gb": 1.5} | values
    (folder / f"rank-{worker['rank']}-{pid}.json").write_text(json.dumps(worker))


def test_a_capped_worker_stands_for_a_device(tmp_path):
    note_worker(tmp_path, os.getpid(), base_rss_gb=0.001)
    reading = CappedWorkers(tmp_path).read({os.getpid()})["rank:0"]
    assert 0.005 < reading.used_gb < 10
    assert reading.capacity_gb == 1.5


def test_workers_of_others_ended_ones_and_broken_files_are_passed_over(tmp_path):
    note_worker(tmp_path, os.getpid())
    note_worker(tmp_path, 2**22 + 1, rank=1)
    (tmp_path / "rank-2-7.json").write_text("{")
    assert CappedWorkers(tmp_path).read({2**22 + 1}) == {}
    assert CappedWorkers(tmp_path / "missing").read({1}) == {}


@dataclass
class Node:
    """A node's GPU memory: `pids` holds what NVML knows of processes, by UUID."""

    held: dict
    pids: dict = field(default_factory=dict)

    def capacity_gb_by_gpu(self):
        return {uuid: 80.0 for uuid in self.held}

    def used_gb_by_gpu(self, pids):
        return {uuid: gb for uuid, (pid, gb) in self.pids.items() if pid in pids}

    def used_gb_in_all(self):
        return dict(self.held)


def test_only_the_trials_own_processes_count():
    node = Node(held={"U0": 50.0, "U1": 0.0}, pids={"U0": (7, 12.0)})
    assert Gpus(node, {"U0": "gpu:0", "U1": "gpu:1"}).read({7}) == {"gpu:0": Reading(12.0, 80.0)}


def test_where_pids_are_strangers_the_rise_since_the_start_counts():
    node = Node(held={"U0": 3.0, "U1": 60.0})
    gpus = Gpus(node, {"U0": "gpu:0"})
    node.held = {"U0": 23.0, "U1": 70.0}
    assert gpus.read({7}) == {"gpu:0": Reading(20.0, 80.0)}


def test_once_pids_were_known_silence_means_given_back():
    node = Node(held={"U0": 12.0}, pids={"U0": (7, 12.0)})
    gpus = Gpus(node, {"U0": "gpu:0"})
    gpus.read({7})
    node.pids, node.held = {}, {"U0": 30.0}
    assert gpus.read({7}) == {}
