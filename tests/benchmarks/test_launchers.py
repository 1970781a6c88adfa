"""What plays attempts in benchmarks is asked for the same things as what runs them."""

import inspect

import pytest

from autotune.trial.launcher import Launcher
from benchmarks.first_feasible import replay as first_feasible
from benchmarks.replay import launcher as replay


@pytest.mark.parametrize("player", [first_feasible.ReplayLauncher, replay.ReplayLauncher])
@pytest.mark.parametrize("method", ["slots", "start", "poll", "end", "close"])
def test_a_player_takes_what_a_launcher_takes(player, method):
    assert inspect.signature(getattr(player, method)) == inspect.signature(getattr(Launcher, method))
