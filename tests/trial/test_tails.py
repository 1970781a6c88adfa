import json
import time
from pathlib import Path

import pytest

from autotune.job.paths import AttemptPaths
from autotune.records import LogEvidence, MemorySample, MetricRow, PhaseMark
from autotune.trial.tails import LINE_BYTES, AttemptReader, LineTail, metric_row


def append(path, text):
    with open(path, "ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_a_missing_file_has_no_lines(tmp_path):
    tail = LineTail(tmp_path / "log")
    assert tail.read() == []
    assert tail.read_rest() == []


def test_a_line_counts_once_it_is_whole(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    append(path, "one\ntw")
    assert tail.read() == ["one"]
    append(path, "o\n")
    assert tail.read() == ["two"]
    append(path, "rest")
    assert tail.read() == []
    assert tail.read_rest() == ["rest"]


def test_a_letter_cut_in_half_is_put_together(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    letter = chr(0x4E2D).encode()
    append(path, letter[:1])
    assert tail.read() == []
    append(path, letter[1:] + b"\n\xff\r\n")
    assert tail.read() == [chr(0x4E2D), chr(0xFFFD)]


def test_a_truncated_file_is_read_anew(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    append(path, "a long line of an earlier start\n")
    assert len(tail.read()) == 1
    path.write_text("new\n")
    assert tail.read() == ["new"]


def test_a_flood_is_read_in_parts_and_nothing_is_lost(tmp_path):
    path = tmp_path / "log"
    append(path, "".join(f"line {number}\n" for number in range(1000)))
    tail = LineTail(path)
    first = tail.read(limit_bytes=100)
    assert 0 < len(first) < 20
    assert first + tail.read_rest() == [f"line {number}" for number in range(1000)]


def test_an_endless_line_is_cut(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    for _ in range(3):
        append(path, "x" * LINE_BYTES)
        assert tail.read() == []
    append(path, "x\nnext\n")
    assert [len(line) for line in tail.read()] == [LINE_BYTES, 4]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"step":3,"data":{"a":1,"b":null,"c":"text","d":true,"e":[1]}}', {"a": 1.0, "b": None}),
        ('{"step":0,"data":{}}', {}),
        ('{"step":1,"data":{"a":NaN,"b":Infinity}}', {"a": None, "b": None}),
        ('{"step":1,"da', None),
        ('{"data":{}}', None),
        ('{"step":"1","data":{}}', None),
        ("[1]", None),
        ("", None),
    ],
)
def test_rows_keep_numbers_and_nulls(line, expected):
    row = metric_row(line, 2.0)
    assert (row.values if row else None) == expected


@pytest.fixture
def paths(tmp_path):
    return AttemptPaths(tmp_path)


def mark(timer, time_s, *, begin, workers=()):
    return (
        json.dumps({"phase_timer": timer, "begin": begin, "time_s": time_s, "workers": list(workers)}) + "\n"
    )


def test_marks_become_phases_and_exact_peaks(paths):
    reader = AttemptReader(paths, started_unix_s=1000.0)
    assert reader.phase == "launch"
    append(paths.phases, mark("update_actor", 1012.5, begin=True))
    assert reader.read(13.0) == [PhaseMark(phase="update_actor", at_s=12.5)]
    assert reader.phase == "update_actor"
    workers = [{"rank": 0, "used_gb": 0.4, "cap_gb": 1.0}, {"rank": 1, "used_gb": 0.3, "cap_gb": 1.0}]
    append(paths.phases, mark("update_actor", 1014.0, begin=False, workers=workers))
    assert reader.read(14.5) == [
        MemorySample(at_s=14.0, phase="update_actor", device="rank:0", used_gb=0.4, capacity_gb=1.0),
        MemorySample(at_s=14.0, phase="update_actor", device="rank:1", used_gb=0.3, capacity_gb=1.0),
    ]


def test_timers_that_are_no_phase_are_passed_over(paths):
    reader = AttemptReader(paths, started_unix_s=0.0)
    append(paths.phases, mark("step", 1.0, begin=True) + mark("unheard_of", 1.0, begin=True) + "{}\n[]\nhalf")
    assert reader.read(2.0) == []


def test_the_console_tells_milestones_and_evidence_with_line_numbers(paths):
    reader = AttemptReader(paths, started_unix_s=0.0)
    append(paths.console, "ray init kwargs: {}\n")
    assert reader.read(1.0) == [PhaseMark(phase="ray_start", at_s=1.0)]
    append(paths.console, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    (evidence,) = reader.read(2.0)
    assert isinstance(evidence, LogEvidence)
    assert (evidence.line_number, evidence.at_s) == (2, 2.0)


def test_progress_is_told_once_for_all_lines(paths):
    reader = AttemptReader(paths, started_unix_s=0.0)
    append(paths.console, "loading the model\n")
    reader.read(1.0)
    append(paths.console, "the model is loaded\n")
    reader.read(2.0)
    progress = reader.take_progress()
    assert (progress.lines, progress.at_s) == (2, 2.0)
    assert reader.take_progress() is None


def test_rows_come_with_the_time_they_were_seen(paths):
    reader = AttemptReader(paths, started_unix_s=0.0)
    append(paths.metrics, '{"step":1,"data":{"critic/rewards/mean":0.5}}\n')
    assert reader.read(7.0) == [MetricRow(step=1, at_s=7.0, values={"critic/rewards/mean": 0.5})]


def test_looking_at_nothing_new_is_cheap(paths):
    for path in (paths.console, paths.metrics, paths.phases):
        append(path, "x\n" * 1000)
    reader = AttemptReader(paths, started_unix_s=0.0)
    reader.read(0.0)
    started_s = time.perf_counter()
    for _ in range(100):
        reader.read(1.0)
    assert (time.perf_counter() - started_s) / 100 < 0.005


def test_a_real_log_read_in_pieces_tells_what_it_tells_at_once(paths, tmp_path):
    """The log of a real GRPO run of a tiny model on CPU that ran out of memory."""
    log = (Path(__file__).parents[1] / "data/judge/oom_log_prob_cpu.console.log").read_bytes()
    in_pieces = AttemptReader(paths, started_unix_s=0.0)
    pieces = []
    for start in range(0, len(log), 1500):
        append(paths.console, log[start : start + 1500])
        pieces += in_pieces.read(1.0)
    pieces += in_pieces.read_rest(1.0)
    assert pieces == AttemptReader(paths, started_unix_s=0.0).read_rest(1.0)
    (evidence,) = [event for event in pieces if isinstance(event, LogEvidence)]
    assert "can't allocate memory" in evidence.text
    assert log.decode().split("\n")[evidence.line_number - 1].endswith(evidence.text[-40:])
    assert in_pieces.phase == "rollout"
