"""Which call failed: the frames and Ray method names that stand before an exception line.

One context per writing process, since the output of several ranks is interleaved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.judge import phases

_HEADER = re.compile(r"^\s*Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s*(?:File )?"?(?P<file>[^"\s]+\.py|<[\w ]+>)"?, line \d+, in (?P<call>[\w<>]+)')
_REMOTE = re.compile(r"ray::[^\s(]*?(?P<actor>\w+)\.(?P<call>\w+)\(")
_FORGET_AFTER_LINES = 20
_SOURCE_LINES = 6

_REWARD_CALLS = frozenset(
    {
        "compute_score",
        "run_single",
        "_call_with_kwargs",
        "_call_with_kwargs_async",
        "get_custom_reward_fn",
        "load_reward_manager",
    }
)
_REWARD_ACTORS = frozenset({"RewardLoopWorker", "RewardManagerWorker", "RewardLoopManager"})
_WAKE_UP_CALLS = frozenset(
    {"wake_up", "resume", "resume_memory_occupation", "resume_kv_cache", "create_and_map"}
)
_SENDER_FILE = re.compile(r"bucketed_weight_transfer|checkpoint_engine")
_WEAK_CALLS = {
    "entropy_from_logits": "old_log_prob",
    "backward": "update_actor",
    "optimizer_step": "update_actor",
}


@dataclass
class FailingCall:
    """What the lines before an exception say about where it happened."""

    phase: str = ""
    """Named by a frame or remote method that belongs to one phase only; the deepest wins."""
    weak_phase: str = ""
    """Named by a frame that is merely typical of a phase."""
    in_reward: bool = False
    """Frames of reward scoring."""
    in_wake_up: bool = False
    """Frames of the rollout engine's wake-up."""
    in_sender: bool = False
    """Frames of the weight transfer's sending side."""
    in_worker: bool = False
    """A training worker's method."""
    frames: int = 0
    _quiet_lines: int = 0

    @property
    def ends_here(self) -> bool:
        """Whether an exception line may come now: frames were seen, and not long ago."""
        return self.frames > 0 and self._quiet_lines <= _SOURCE_LINES

    def see(self, text: str) -> None:
        """Takes in one undecorated line."""
        if _HEADER.match(text):
            self.forget()
        frame = _FRAME.match(text)
        remote = _REMOTE.search(text)
        if frame is None and remote is None:
            self._quiet_lines += 1
            if self._quiet_lines > _FORGET_AFTER_LINES:
                self.forget()
            return
        self._quiet_lines = 0
        if remote is not None:
            self._see_remote(remote["actor"], remote["call"])
        if frame is not None:
            self._see_frame(frame["file"], frame["call"])

    def _see_remote(self, actor: str, call: str) -> None:
        self.in_worker = actor.endswith(("WorkerDict", "RolloutRefWorker", "CriticWorker"))
        self.in_reward = self.in_reward or actor in _REWARD_ACTORS
        self._name_phase("model_load" if self.in_worker and call == "__init__" else phases.from_call(call))

    def _see_frame(self, file: str, call: str) -> None:
        self.frames += 1
        self.in_reward = self.in_reward or call in _REWARD_CALLS or "reward_manager" in file
        self.in_wake_up = self.in_wake_up or call in _WAKE_UP_CALLS or "cumem" in file
        self.in_sender = self.in_sender or _SENDER_FILE.search(file) is not None
        self.weak_phase = _WEAK_CALLS.get(call, self.weak_phase)
        self._name_phase(phases.from_call(call))

    def _name_phase(self, phase: str | None) -> None:
        # The reference policy computes its log-probabilities through the actor's own functions.
        if phase is None or (self.phase == "ref_log_prob" and phase == "old_log_prob"):
            return
        self.phase = phase

    def forget(self) -> None:
        """Begins anew: the exception was told, or its lines are long past."""
        self.phase = self.weak_phase = ""
        self.in_reward = self.in_wake_up = self.in_sender = self.in_worker = False
        self.frames = self._quiet_lines = 0
