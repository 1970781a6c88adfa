import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in_verl import living, noted_pids, wait_for

from autotune.trial.recorded import read_end
from autotune.trial.running import read_running

EVERY_CHILD = ["plain", "setsid", "deaf", "daemon", "breeder"]


def end_of(paths):
    return wait_for(lambda: read_end(paths))


def ask(process):
    process.stdin.write(b"end for the test\n")
    process.stdin.flush()


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_of_its_own_is_recorded(supervise, code):
    _, _, paths = supervise(exit=code, console=["Training done"])
    end = end_of(paths)
    assert (end.exit_code, end.asked, end.lost, end.left_behind) == (code, False, False, ())
    assert end.tail[-1] == "Training done"


def test_whatever_an_exit_leaves_running_is_ended(supervise):
    _, _, paths = supervise(exit=1, children=EVERY_CHILD)
    end = end_of(paths)
    assert (end.exit_code, end.left_behind, living(paths)) == (1, (), [])


def test_an_asked_end_takes_every_descendant(supervise):
    process, _, paths = supervise(children=EVERY_CHILD)
    wait_for(lambda: {name for name, _ in noted_pids(paths)} >= {"verl", *EVERY_CHILD})
    ask(process)
    end = end_of(paths)
    assert (end.asked, end.lost, end.left_behind) == (True, False, ())
    assert end.exit_code == -signal.SIGTERM  # it went by itself within the grace
    assert living(paths) == []


def test_a_driver_that_does_not_listen_is_killed_after_the_grace(supervise):
    process, _, paths = supervise(request={"grace_s": 0.3}, deaf=True, children=["deaf"])
    ask(process)
    end = end_of(paths)
    assert (end.exit_code, end.asked, living(paths)) == (None, True, [])
    assert end.clean_up_s >= 0.3


def test_a_stopped_tree_is_ended_too(supervise):
    process, _, paths = supervise(request={"grace_s": 0.3}, children=["setsid"])
    for _, pid in noted_pids(paths):
        os.kill(pid, signal.SIGSTOP)
    ask(process)
    assert end_of(paths).left_behind == ()
    assert living(paths) == []


def test_the_death_of_the_runner_ends_the_tree(supervise):
    process, _, paths = supervise(children=EVERY_CHILD)
    process.stdin.close()
    end = end_of(paths)
    assert (end.lost, end.asked, living(paths)) == (True, False, [])


def test_a_signal_to_the_supervisor_ends_the_tree(supervise):
    _, _, paths = supervise(children=EVERY_CHILD)
    os.kill(read_running(paths.running).supervisor.pid, signal.SIGTERM)
    end = end_of(paths)
    assert (end.lost, living(paths)) == (True, [])


def test_the_wall_limit_holds_without_anybody_asking(supervise):
    _, _, paths = supervise(request={"wall_limit_s": 1.0})
    end = end_of(paths)
    assert end.asked
    assert 1.0 <= end.at_s < 4


def test_an_interpreter_that_does_not_exist_is_an_end(supervise):
    _, _, paths = supervise(request={"python": "/nowhere/python"})
    end = end_of(paths)
    assert end.exit_code == 127
    assert "could not start verl" in end.tail[-1]
    assert read_running(paths.running).verl is None


def test_the_private_temporary_folder_goes(supervise):
    process, _, paths = supervise()
    temp_dir = Path(read_running(paths.running).temp_dir)
    assert temp_dir.is_dir()
    assert len(str(temp_dir)) < 20
    ask(process)
    end_of(paths)
    assert not temp_dir.exists()


def test_shared_memory_goes_and_that_of_others_stays(supervise, tmp_path):
    name = f"autotune-test-{os.getpid()}"
    others = Path("/dev/shm", f"{name}-others")
    others.write_bytes(b"x")
    try:
        process, _, paths = supervise(shared_memory=name)
        assert Path("/dev/shm", name).exists()
        ask(process)
        end_of(paths)
        assert not Path("/dev/shm", name).exists()
        assert others.exists()
    finally:
        others.unlink()


def test_shared_memory_goes_after_a_normal_end_too(supervise):
    """What vLLM keeps for its whole life was seen long before."""
    name = f"autotune-test-{os.getpid()}"
    _, _, paths = supervise(shared_memory=name, children=["plain"], exit=0, exit_after_s=2.5)
    wait_for(lambda: (paths.root / "ready").exists())
    assert Path("/dev/shm", name).exists()
    assert end_of(paths).exit_code == 0
    assert not Path("/dev/shm", name).exists()


def test_what_is_running_is_on_record_before_anything_is_reported(supervise):
    _, request, paths = supervise()
    running = read_running(paths.running)
    assert running.attempt_id == request.attempt_id
    assert ("verl", running.verl.pid) in noted_pids(paths)
    assert json.loads(paths.running.read_text())["started_utc"].endswith("+00:00")


def test_it_imports_nothing_heavy():
    program = "import sys, autotune.trial.supervisor; print({m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("ray", "torch", "pydantic", "numpy", "psutil", "yaml"):
        assert f"'{heavy}'" not in loaded
