import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in_verl import living, wait_for

from autotune.errors import ResourceError
from autotune.job.model import ResourceSection
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd, MetricRow
from autotune.trial import process_tree
from autotune.trial.environment import KEY_VARIABLE
from autotune.trial.launcher import RayLauncher
from autotune.trial.recorded import read_end
from autotune.trial.request import CpuShare
from autotune.trial.running import read_running

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

CHILDREN = ["setsid", "deaf", "daemon"]
ROW = {"step": 1, "data": {"critic/rewards/mean": 0.5}}


@pytest.fixture(scope="module")
def launcher():
    launcher = RayLauncher(ResourceSection(device="cpu", trials_at_once=2))
    yield launcher
    launcher.close()


@pytest.fixture
def ready(launcher, make_request):
    """Starts an attempt and waits for the stand-in; afterwards nothing may be left of it."""
    started = []

    def start(**plan):
        request = make_request(**plan)
        launcher.start(request)
        started.append(request.attempt_id)
        paths = AttemptPaths(Path(request.folder))
        wait_for(lambda: (paths.root / "ready").exists())
        return request.attempt_id, paths

    yield start
    for attempt_id in started:
        launcher.end(attempt_id, "the test is over")
    wait_for(lambda: launcher.poll() is not None and launcher.slots() == 2)


def until_ended(launcher, *attempt_ids):
    """All events of the attempts, by id, up to their ends; what others report meanwhile is left out."""
    events = {attempt_id: [] for attempt_id in attempt_ids}

    def all_ended():
        for attempt_id, event in launcher.poll():
            if attempt_id in events:
                events[attempt_id].append(event)
        return all(found and isinstance(found[-1], AttemptEnd) for found in events.values())

    wait_for(all_ended)
    return events


def test_two_attempts_run_side_by_side_and_give_their_slots_back(launcher, ready):
    assert launcher.slots() == 2
    first, _ = ready(exit=0, metrics=[ROW])
    second, second_paths = ready(children=CHILDREN)
    assert launcher.slots() == 0
    events = until_ended(launcher, first)
    assert [event.step for event in events[first] if isinstance(event, MetricRow)] == [1]
    assert events[first][-1].exit_code == 0
    assert launcher.slots() == 1
    launcher.end(second, "a guard")
    end = until_ended(launcher, second)[second][-1]
    assert (end.asked, end.lost, end.left_behind, living(second_paths)) == (True, False, (), [])
    assert launcher.slots() == 2
    assert launcher.poll() == []
    launcher.end(second, "too late")
    launcher.end("nobody", "unknown")


@pytest.fixture
def session_python(tmp_path):
    """An interpreter that serves the stand-in for a session, whatever module it is asked for."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -m fake_session "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_candidates_of_one_key_share_a_process_and_others_make_it_go(launcher, make_request, session_python):
    def run(key):
        request = make_request({"python": session_python, "session_key": key}, metrics=[ROW])
        launcher.start(request)
        end = until_ended(launcher, request.attempt_id)[request.attempt_id][-1]
        assert (end.exit_code, end.lost) == (0, False), end.tail
        return end, AttemptPaths(Path(request.folder).parent.parent / "sessions" / end.session)

    first, first_paths = run("one key")
    again, _ = run("one key")
    assert (again.session, again.session_number) == (first.session, 1)
    other, _ = run("another key")
    assert other.session != first.session
    assert launcher.slots() == 2  # both wait for a candidate
    third, _ = run("a third key")  # there is no room for three
    assert read_end(first_paths).left_behind == ()
    assert living(first_paths) == []
    assert run("another key")[0].session == other.session
    assert run("a third key")[0].session == third.session


def test_an_end_asked_at_once_is_heard(launcher, make_request):
    request = make_request()
    launcher.start(request)
    launcher.end(request.attempt_id, "changed its mind")
    end = until_ended(launcher, request.attempt_id)[request.attempt_id][-1]
    assert (end.asked, end.lost) == (True, False)
    assert living(AttemptPaths(Path(request.folder))) == []


def runner_pid(paths):
    """The Ray worker that holds the other end of the supervisor's standard input."""
    supervisor = read_running(paths.running).supervisor.pid
    pipe = os.readlink(f"/proc/{supervisor}/fd/0")
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != supervisor):
        try:
            if any(os.readlink(entry.path) == pipe for entry in os.scandir(f"/proc/{pid}/fd")):
                return pid
        except OSError:
            continue
    raise AssertionError("nobody holds the pipe")


def test_a_killed_runner_loses_the_attempt_and_leaves_nothing(launcher, ready):
    attempt_id, paths = ready(children=CHILDREN)
    os.kill(runner_pid(paths), signal.SIGKILL)
    end = until_ended(launcher, attempt_id)[attempt_id][-1]
    assert (end.lost, end.asked, end.left_behind, living(paths)) == (True, False, (), [])
    assert "runner: " in end.tail[-1]


def test_a_folder_that_cannot_be_written_is_a_lost_attempt(launcher, make_request, tmp_path):
    (tmp_path / "file").write_text("in the way")
    request = make_request(request={"folder": str(tmp_path / "file" / "attempt")})
    launcher.start(request)
    end = until_ended(launcher, request.attempt_id)[request.attempt_id][-1]
    assert end.lost
    assert "storage.results" in end.tail[-1]


def test_two_private_rays_share_a_node_and_leave_nothing(launcher, make_request):
    """As verl has it: the trials' own clusters inside the runners of the outer one."""
    requests = [
        make_request(request={"entry": "fake_ray_verl", "cpu": CpuShare(ray_cpus=3)}) for _ in range(2)
    ]
    for request in requests:
        launcher.start(request)
    folders = [AttemptPaths(Path(request.folder)) for request in requests]
    wait_for(lambda: all((paths.root / "ready").exists() for paths in folders), limit_s=100)
    clusters = [json.loads((paths.root / "cluster").read_text()) for paths in folders]
    assert len({cluster["address"] for cluster in clusters}) == 2
    assert [(cluster["gpus"], cluster["cpus"]) for cluster in clusters] == [(1, 3), (1, 3)]
    for request in requests:
        launcher.end(request.attempt_id, "seen enough")
    events = until_ended(launcher, *(request.attempt_id for request in requests))
    for request, paths, cluster in zip(requests, folders, clusters, strict=True):
        end = events[request.attempt_id][-1]
        assert (end.asked, end.lost, end.left_behind, living(paths)) == (True, False, (), [])
        assert process_tree.marked(KEY_VARIABLE, request.attempt_id) == []
        assert not Path(cluster["temp"]).exists()


def test_a_killed_controller_leaves_nothing(make_request, tmp_path):
    request = make_request(children=CHILDREN)
    program = """
import sys, time
from autotune.job.model import ResourceSection
from autotune.trial.launcher import RayLauncher
from autotune.trial.request import AttemptRequest
launcher = RayLauncher(ResourceSection(device="cpu"))
launcher.start(AttemptRequest.from_json(sys.argv[1]))
while True:
    launcher.poll()
    time.sleep(0.1)
"""
    controller = subprocess.Popen(
        [sys.executable, "-c", program, request.to_json()], stdout=subprocess.DEVNULL
    )
    paths = AttemptPaths(Path(request.folder))
    try:
        wait_for(lambda: (paths.root / "ready").exists(), limit_s=60)
    finally:
        controller.kill()
        controller.wait()
    end = wait_for(lambda: read_end(paths))
    assert (end.lost, end.left_behind, living(paths)) == (True, (), [])


def test_a_job_for_gpus_needs_a_node_that_has_them(launcher):
    """The cluster of these tests has no GPU."""
    with pytest.raises(ResourceError) as caught:
        RayLauncher(ResourceSection(device="gpu", gpus_per_trial=2))
    (fault,) = caught.value.faults
    assert fault.key == "resources.gpus_per_trial"
    assert "device: cpu" in fault.allowed + fault.next_step
    assert launcher.slots() == 2  # the cluster is still there


def test_a_cluster_that_does_not_answer_is_named():
    program = """
from autotune.errors import ResourceError
from autotune.job.model import ResourceSection
from autotune.trial.launcher import RayLauncher
try:
    RayLauncher(ResourceSection(device="cpu", ray_address="127.0.0.1:1"))
except ResourceError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "resources.ray_address; found 127.0.0.1:1" in done.stdout.replace("Ray: ", "")
