import json
import os
import time
from contextlib import contextmanager

import pytest

from autotune.verl_plugin.phases import PhaseMarks

GB = 1024**3


@contextmanager
def timer(name, timing_raw, color=None):
    yield
    timing_raw[name] = 1.0


def marks_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def caps(tmp_path):
    """A folder that names this very process as a capped worker."""
    with open("/proc/self/status") as status:
        data_gb = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024 / GB
    folder = tmp_path / "caps"
    folder.mkdir()
    worker = {"pid": os.getpid(), "create_time_s": 0.0, "rank": 3, "base_data_gb": data_gb, "cap_gb": 2.0}
    (folder / "rank-3-1.json").write_text(json.dumps(worker))
    (folder / "rank-4-2.part").write_text("{")
    return folder


def touch(megabytes):
    return len(bytearray(b"x") * (megabytes * 2**20))


def test_each_timer_writes_its_begin_and_its_end(tmp_path):
    marked = PhaseMarks(str(tmp_path / "phases.jsonl")).around(timer)
    timing = {}
    before = time.time()
    with marked("step", timing), marked("gen", timing, color="red"):
        pass
    lines = marks_of(tmp_path / "phases.jsonl")
    assert [(line["phase_timer"], line["begin"]) for line in lines] == [
        ("step", True), ("gen", True), ("gen", False), ("step", False),
    ]  # fmt: skip
    assert all(before <= line["time_s"] <= time.time() and line["workers"] == [] for line in lines)
    assert timing == {"step": 1.0, "gen": 1.0}


def test_the_peak_of_a_part_is_seen_though_it_was_freed_and_an_outer_part_keeps_it(tmp_path, caps):
    marked = PhaseMarks(str(tmp_path / "phases.jsonl"), str(caps)).around(timer)
    with marked("step", {}):
        with marked("update_actor", {}):
            touch(300)
        with marked("adv", {}):
            pass
    used_gb = {
        line["phase_timer"]: line["workers"][0]["used_gb"]
        for line in marks_of(tmp_path / "phases.jsonl")
        if not line["begin"]
    }
    assert used_gb["update_actor"] == pytest.approx(0.3, abs=0.08)
    assert used_gb["adv"] < 0.1
    assert used_gb["step"] >= used_gb["update_actor"]


def test_a_failing_step_is_marked_and_its_error_passes(tmp_path):
    marked = PhaseMarks(str(tmp_path / "phases.jsonl")).around(timer)
    with pytest.raises(RuntimeError, match="out of memory"), marked("ref", {}):
        raise RuntimeError("out of memory")
    assert [line["begin"] for line in marks_of(tmp_path / "phases.jsonl")] == [True, False]


def test_training_goes_on_where_nothing_can_be_read_or_written(tmp_path, caps):
    gone = {"pid": 2**22 + 1, "rank": 0, "base_data_gb": 0.0, "cap_gb": 1.0}
    (caps / "rank-0-9.json").write_text(json.dumps(gone))
    (caps / "rank-1-9.json").write_text("{")
    for folder in (str(caps), str(tmp_path / "missing")):
        marked = PhaseMarks(str(tmp_path / "no" / "folder" / "phases.jsonl"), folder).around(timer)
        with marked("gen", {}):
            pass


def test_marks_cost_less_than_a_millisecond_a_timer(tmp_path, caps):
    marks = PhaseMarks(str(tmp_path / "phases.jsonl"), str(caps))
    seconds = []
    for _ in range(50):
        start = time.perf_counter()
        marks.begin("gen")
        marks.end("gen")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 2e-3
