import sys
import types

from autotune.verl_plugin import replay_poll


class ReplayBuffer:
    def __init__(self, trainer_mode, poll_interval=2.0):
        self.trainer_mode = trainer_mode
        self.poll_interval = poll_interval


def test_every_buffer_polls_at_the_asked_interval(monkeypatch):
    module = types.ModuleType(replay_poll.REPLAY_BUFFER_MODULE)
    module.ReplayBuffer = type("ReplayBuffer", (ReplayBuffer,), {})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    replay_poll.turn_on(0.05)
    buffer = module.ReplayBuffer("sync", poll_interval=2.0)
    assert (buffer.trainer_mode, buffer.poll_interval) == ("sync", 0.05)
