import os
import signal
from dataclasses import replace
from pathlib import Path

from stand_in_verl import living, wait_for

from autotune.job.paths import AttemptPaths
from autotune.trial import process_tree
from autotune.trial.orphans import end_orphan
from autotune.trial.recorded import read_end
from autotune.trial.running import read_running

CHILDREN = ["plain", "setsid", "deaf", "daemon"]


def test_a_recorded_end_is_returned_as_it_is(supervise):
    _, _, paths = supervise(exit=3)
    end = wait_for(lambda: read_end(paths))
    assert end_orphan(paths) == end


def test_a_living_supervisor_ends_its_own_tree(supervise):
    _, _, paths = supervise(children=CHILDREN)
    end = end_orphan(paths)
    assert (end.lost, end.left_behind, living(paths)) == (True, (), [])
    assert read_end(paths) == end


def test_without_a_supervisor_every_process_is_found(supervise):
    """verl, too, is killed first, so that its children belong to init and no descent is left."""
    _, _, paths = supervise(children=CHILDREN)
    running = read_running(paths.running)
    os.kill(running.supervisor.pid, signal.SIGKILL)
    os.kill(running.verl.pid, signal.SIGKILL)
    wait_for(lambda: not process_tree.is_alive(running.verl))
    assert set(living(paths)) == set(CHILDREN)
    end = end_orphan(paths)
    assert (end.lost, end.exit_code, end.left_behind, living(paths)) == (True, None, (), [])
    assert not Path(running.temp_dir).exists()
    assert end_orphan(paths) == end


def test_another_boot_left_nothing(supervise):
    process, _, paths = supervise()
    running = read_running(paths.running)
    paths.running.write_text(replace(running, boot_id="an earlier one", temp_dir="/tmp/at-none").to_json())
    assert end_orphan(paths).lost
    assert living(paths) == ["verl"]  # it has another life of the same pid
    process.stdin.close()
    wait_for(lambda: not living(paths))


def test_an_attempt_that_never_started_is_lost(tmp_path):
    end = end_orphan(AttemptPaths(tmp_path / "nothing"))
    assert (end.lost, end.left_behind) == (True, ())
