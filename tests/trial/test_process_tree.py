import os
import signal
import subprocess
import sys
from multiprocessing import shared_memory

import pytest
from stand_in_verl import wait_for

from autotune.trial import process_tree
from autotune.trial.process_tree import ProcessKey

SLEEP = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]


@pytest.fixture
def sleeper():
    process = subprocess.Popen(SLEEP, env={**os.environ, "AUTOTUNE_TEST_MARK": "m1"}, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def key_of(pid):
    return process_tree.find_process(pid).key


def test_a_process_is_known_by_pid_and_start(sleeper):
    row = process_tree.find_process(sleeper.pid)
    assert row.parent_pid == os.getpid()
    assert process_tree.is_alive(row.key)
    assert not process_tree.is_alive(ProcessKey(sleeper.pid, row.key.start_ticks - 1))


def test_a_pid_used_again_is_not_signalled(sleeper):
    row = process_tree.find_process(sleeper.pid)
    other = ProcessKey(sleeper.pid, row.key.start_ticks - 1)
    assert not process_tree.send_signal(other, signal.SIGKILL)
    assert process_tree.is_alive(row.key)


def test_no_process_has_no_row():
    assert process_tree.find_process(2**22 + 1) is None


def test_a_zombie_is_not_alive(sleeper):
    key = key_of(sleeper.pid)
    sleeper.kill()
    wait_for(lambda: not process_tree.is_alive(key))
    assert process_tree.find_process(sleeper.pid) is not None  # its parent has not asked yet


def test_descendants_are_found_below_shells(sleeper):
    assert key_of(sleeper.pid) in process_tree.descendants(os.getpid())
    assert key_of(sleeper.pid) not in process_tree.descendants(sleeper.pid)


def test_marked_processes_are_found(sleeper):
    assert process_tree.marked("AUTOTUNE_TEST_MARK", "m1") == [key_of(sleeper.pid)]
    assert process_tree.marked("AUTOTUNE_TEST_MARK", "m") == []


def test_end_all_kills_until_nothing_is_found(sleeper):
    left = process_tree.end_all(
        lambda: [key for key in process_tree.descendants(os.getpid()) if key.pid == sleeper.pid], limit_s=5
    )
    assert left == ()
    assert sleeper.wait(timeout=5) == -signal.SIGKILL


def test_end_all_names_what_would_not_go():
    everlasting = ProcessKey(os.getpid(), 0)  # never this process: its start differs, so it is not signalled
    assert process_tree.end_all(lambda: [everlasting], limit_s=0.05) == (os.getpid(),)


def test_host_memory_counts_shared_pages_once():
    own = key_of(os.getpid())
    once = process_tree.host_memory_gb([own])
    twice = process_tree.host_memory_gb([own, own])
    assert 0 < once < twice < 2 * once
    assert process_tree.host_memory_gb([ProcessKey(2**22 + 1, 0)]) == 0


def test_mapped_shared_memory_is_named():
    block = shared_memory.SharedMemory(create=True, size=4096)
    try:
        assert block.name in process_tree.shared_memory_files([key_of(os.getpid())])
    finally:
        block.close()
        block.unlink()
