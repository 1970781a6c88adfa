"""One controller a job; a dead one holds nothing."""

import os
import subprocess
import sys

import pytest

from autotune.errors import ResourceError, StoreError
from autotune.store.lock import ControllerLock

HOLD = """
import sys
from pathlib import Path
from autotune.store.lock import ControllerLock
with ControllerLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "tiny.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_a_second_controller_is_told_who_holds_the_job(tmp_path, holder):
    with pytest.raises(ResourceError) as caught, ControllerLock(tmp_path / "tiny.lock"):
        pass
    (fault,) = caught.value.faults
    assert fault.key == "controller"
    assert f"process {holder.pid} on" in fault.found
    assert f"kill -INT {holder.pid}" in fault.next_step


def test_a_killed_controller_holds_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    path = tmp_path / "tiny.lock"
    with ControllerLock(path):
        assert path.read_text().split()[0] == str(os.getpid())


def test_released_and_taken_again(tmp_path):
    lock = ControllerLock(tmp_path / "results" / "tiny.lock")
    for _ in range(2):
        with lock, pytest.raises(ResourceError), ControllerLock(lock.path):
            pass


def test_an_unusable_folder(tmp_path):
    (tmp_path / "results").write_text("a file stands here")
    with (
        pytest.raises(StoreError, match=r"storage\.results"),
        ControllerLock(tmp_path / "results" / "lock"),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StoreError, match="Permission"), ControllerLock(tmp_path / "tiny.lock"):
        pass
