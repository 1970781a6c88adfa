import json
import os
import signal
import time
from pathlib import Path

import pytest
from stand_in_verl import living, wait_for

from autotune.job.paths import AttemptPaths
from autotune.judge.event_json import event_from_json
from autotune.records import AttemptEnd, LogEvidence, MemorySample, MetricRow, PhaseMark, Progress
from autotune.trial import process_tree
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.runner import Runner, node_environment
from autotune.trial.running import read_running

ROW = {"step": 1, "data": {"critic/rewards/mean": 0.5, "actor/grad_norm": None}}
OOM = "RuntimeError: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"


@pytest.fixture
def run(make_request):
    runners = []

    def start(request=None, environment=None, **plan):
        made = make_request(request, **plan)
        runner = Runner()
        runners.append((runner, made))
        runner.start(made.to_json(), environment)
        return runner, AttemptPaths(Path(made.folder))

    yield start
    for runner, made in runners:
        runner.end("the test is over")
        wait_for(AttemptPaths(Path(made.folder)).end.exists)
        process_tree.end_all(lambda made=made: process_tree.marked(KEY_VARIABLE, made.attempt_id), limit_s=10)


def events_until_end(runner, limit_s=40.0):
    events = []

    def ended():
        events.extend(event_from_json(value) for value in runner.poll())
        return events and isinstance(events[-1], AttemptEnd)

    wait_for(ended, limit_s)
    return events


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_an_attempt_is_told_from_its_launch_to_its_end(run):
    now_s = time.time()
    marks = [
        {"phase_timer": "update_actor", "begin": True, "time_s": now_s + 5, "workers": []},
        {
            "phase_timer": "update_actor",
            "begin": False,
            "time_s": now_s + 6,
            "workers": [{"rank": 0, "used_gb": 0.4, "cap_gb": 1.0}],
        },
    ]
    runner, paths = run(exit=1, metrics=[ROW], phases=marks, console=["a sign of life", OOM])
    events = events_until_end(runner)
    (row,) = of(MetricRow, events)
    assert (row.step, row.values) == (1, {"critic/rewards/mean": 0.5, "actor/grad_norm": None})
    assert {"ray_start", "update_actor"} <= {mark.phase for mark in of(PhaseMark, events)}
    assert [sample.used_gb for sample in of(MemorySample, events)] == [0.4]
    assert OOM in [evidence.text for evidence in of(LogEvidence, events)]
    assert sum(progress.lines for progress in of(Progress, events)) >= 2
    (end,) = of(AttemptEnd, events)
    assert (end.exit_code, end.asked, end.lost, end.left_behind) == (1, False, False, ())
    assert runner.poll() == []
    assert paths.request.exists()
    assert paths.config.exists()


def test_what_is_handed_over_reaches_verl_and_no_file(run):
    variables = ["WANDB_API_KEY", "NOTE"]
    runner, paths = run(
        {"environment": {"NOTE": "job"}}, {"WANDB_API_KEY": "k-1", "NOTE": "node"}, variables=variables
    )
    wait_for(lambda: (paths.root / "ready").exists())
    got = json.loads((paths.root / "variables").read_text())
    assert got == {"WANDB_API_KEY": "k-1", "NOTE": "job"}
    runner.end("seen")
    events_until_end(runner)
    holding = [path.name for path in paths.root.rglob("*") if path.is_file() and "k-1" in path.read_text()]
    assert holding == ["variables"]


def test_an_end_on_request_takes_the_tree(run):
    runner, paths = run(children=["setsid", "deaf", "daemon"])
    wait_for(lambda: (paths.root / "ready").exists())
    runner.end("a guard")
    end = events_until_end(runner)[-1]
    assert (end.asked, end.left_behind, living(paths)) == (True, (), [])
    runner.end("again, too late")


def test_an_end_asked_before_the_launch_is_not_forgotten(run):
    runner, paths = run()
    runner.end("at once")
    assert events_until_end(runner)[-1].asked
    assert living(paths) == []


def test_the_death_of_the_supervisor_loses_the_attempt_and_ends_the_tree(run):
    runner, paths = run(children=["setsid", "deaf", "daemon"])
    wait_for(lambda: (paths.root / "ready").exists())
    os.kill(read_running(paths.running).supervisor.pid, signal.SIGKILL)
    end = events_until_end(runner)[-1]
    assert (end.lost, end.left_behind, living(paths)) == (True, (), [])


def test_asking_while_nothing_happens_is_cheap(run):
    runner, paths = run()
    wait_for(lambda: (paths.root / "ready").exists())
    started_s = time.perf_counter()
    for _ in range(100):
        runner.poll()
    assert (time.perf_counter() - started_s) / 100 < 0.01


def test_what_ray_sets_in_its_workers_is_not_the_nodes(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    assert node_environment().get("OMP_NUM_THREADS") != "77"
