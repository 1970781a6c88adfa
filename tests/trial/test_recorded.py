import json

import pytest

from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd, MemorySample, MetricRow, PhaseMark
from autotune.trial.process_tree import ProcessKey
from autotune.trial.recorded import read_attempt, read_end
from autotune.trial.running import RunningAttempt, read_running
from autotune.trial.supervisor import write_end

RUNNING = RunningAttempt(
    attempt_id="ab12",
    boot_id="b",
    supervisor=ProcessKey(1, 2),
    verl=None,
    started_utc="2026-01-01T00:00:00+00:00",
    started_unix_s=1000.0,
    started_monotonic_s=5.0,
    temp_dir="/tmp/at-none",
)
END = AttemptEnd(at_s=60.0, exit_code=1, asked=False, clean_up_s=0.2, left_behind=(7,), tail=("a", "b"))


@pytest.fixture
def paths(tmp_path):
    return AttemptPaths(tmp_path)


def test_running_and_end_come_back_as_written(paths):
    assert read_running(paths.running) is None
    assert read_end(paths) is None
    paths.running.write_text(RUNNING.to_json())
    write_end(paths, END)
    assert read_running(paths.running) == RUNNING
    assert read_end(paths) == END


def test_an_attempt_that_never_ran_has_no_events(paths):
    assert read_attempt(paths) == []


def test_events_come_back_in_time_order_with_the_end_last(paths):
    paths.running.write_text(RUNNING.to_json())
    write_end(paths, END)
    marks = [("gen", 1010, True), ("gen", 1012, False), ("gen", 1020, True), ("update_actor", 1025, True)]
    paths.phases.write_text(
        "".join(
            json.dumps(
                {
                    "phase_timer": timer,
                    "begin": begin,
                    "time_s": time_s,
                    "workers": [] if begin else [{"rank": 0, "used_gb": 0.5, "cap_gb": 1.0}],
                }
            )
            + "\n"
            for timer, time_s, begin in marks
        )
    )
    paths.metrics.write_text("".join(f'{{"step":{step},"data":{{"a":{step}}}}}\n' for step in (1, 2)))
    paths.console.write_text("ray init kwargs: {}\nsomething new\n")
    events = read_attempt(paths)
    assert [event.at_s for event in events] == sorted(event.at_s for event in events)
    assert events[-1] == END
    assert events[0] == PhaseMark(phase="ray_start", at_s=10.0)
    assert MemorySample(at_s=12.0, phase="rollout", device="rank:0", used_gb=0.5, capacity_gb=1.0) in events
    assert MetricRow(step=1, at_s=20.0, values={"a": 1.0}) in events
    assert MetricRow(step=2, at_s=60.0, values={"a": 2.0}) in events
    phases = [event.phase for event in events if isinstance(event, PhaseMark)]
    assert phases == ["ray_start", "rollout", "rollout", "update_actor"]


def test_without_an_end_the_files_say_how_old_it_got(paths):
    paths.running.write_text(RUNNING.to_json())
    paths.metrics.write_text('{"step":1,"data":{}}\n')
    (row,) = read_attempt(paths)
    assert row.at_s == pytest.approx(paths.metrics.stat().st_mtime - 1000.0)
