"""Attempts of different sizes beside each other, on a Ray that is told of GPUs which the stand-in leaves alone."""

import sys
from pathlib import Path

import pytest
import ray
from stand_in_verl import wait_for

from autotune.errors import ResourceError
from autotune.job.model import ResourceSection
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptEnd
from autotune.trial.launcher import NAMESPACE, RayLauncher

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

SHOW_GPUS = '''
"""Notes the GPUs that it sees, then waits for its end."""
import os, sys, time
folder = sys.argv[sys.argv.index("--config-path") + 1]
with open(os.path.join(folder, "gpus"), "w") as file:
    file.write(os.environ["CUDA_VISIBLE_DEVICES"])
os.rename(os.path.join(folder, "gpus"), os.path.join(folder, "seen"))
time.sleep(600)
'''


@pytest.fixture(scope="module")
def launcher():
    """Of a node with three GPUs."""
    ray.init(
        address="local",
        num_gpus=3,
        num_cpus=1,
        namespace=NAMESPACE,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    launcher = RayLauncher(ResourceSection(device="gpu"))
    yield launcher
    launcher.close()
    ray.shutdown()


@pytest.fixture
def start(launcher, make_request, tmp_path):
    """Starts an attempt of so many GPUs; afterwards nothing may be held."""
    (tmp_path / "show_gpus.py").write_text(SHOW_GPUS)
    started = []

    def start(gpus, **request):
        fields = {"entry": "show_gpus", "device": "gpu", "gpus": gpus, **request}
        made = make_request(fields)
        launcher.start(made)
        started.append(made.attempt_id)
        return made.attempt_id, AttemptPaths(Path(made.folder)).root / "seen"

    yield start
    for attempt_id in started:
        launcher.end(attempt_id, "the test is over")
    wait_for(lambda: launcher.poll() is not None and launcher.slots() == 3)


def seen_by(*files):
    wait_for(lambda: all(file.exists() for file in files))
    return [file.read_text().split(",") for file in files]


def ended(launcher, attempt_id):
    return wait_for(
        lambda: [e for name, e in launcher.poll() if name == attempt_id and isinstance(e, AttemptEnd)]
    )[0]


def test_one_and_two_gpus_run_side_by_side_and_share_none(launcher, start):
    assert (launcher.largest(), launcher.slots(), launcher.slots(2), launcher.slots(4)) == (3, 3, 1, 0)
    two, two_seen = start(2)
    assert (launcher.slots(), launcher.slots(2)) == (1, 0)
    one, one_seen = start(1)
    assert launcher.slots() == 0
    by_two, by_one = seen_by(two_seen, one_seen)
    assert (len(by_two), len(by_one)) == (2, 1)
    assert not set(by_two) & set(by_one)
    launcher.end(one, "make room")
    assert ended(launcher, one).asked
    wait_for(lambda: launcher.slots() == 1)  # Ray hears of it a moment later
    assert launcher.slots(2) == 0
    launcher.end(two, "make room")
    assert ended(launcher, two).asked
    wait_for(lambda: launcher.slots(3) == 1)


def test_a_large_attempt_makes_as_many_sessions_go_as_are_in_its_way(launcher, start, make_request, tmp_path):
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -m fake_session "$@"\n')
    script.chmod(0o755)
    for key in "abc":
        request = make_request(
            {"python": str(script), "session_key": key, "device": "gpu", "gpus": 1}, metrics=[]
        )
        launcher.start(request)
        assert ended(launcher, request.attempt_id).session
    assert launcher.warm_keys() == {"a", "b", "c"}
    assert launcher.slots(2) == 1
    _, seen = start(2)
    assert launcher.warm_keys() == {"c"}
    assert len(seen_by(seen)[0]) == 2
    assert launcher.slots() == 1  # the session that is left makes room when it has to
    start(1)
    assert launcher.warm_keys() == set()


def test_a_job_larger_than_every_node_is_refused_at_once(launcher):
    with pytest.raises(ResourceError) as caught:
        RayLauncher(ResourceSection(device="gpu", gpus_per_trial=4))
    assert caught.value.faults[0].allowed == "at most 3"
    assert launcher.slots() == 3
