"""What one console line means, given the failing call around it: kind, level and phase.

The phase comes from the frames and remote method names where they tell it, then from the text, then
from frames that are merely typical of a phase, and last from the start-up milestone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.judge import phases
from autotune.judge.console_line import ConsoleLine
from autotune.judge.kinds import FailureKind, hang_kind, oom_kind
from autotune.judge.patterns import (
    CLUSTER,
    COLLECTIVE,
    CONSTRAINT,
    DEVICE_OOM,
    HINT,
    HOST_OOM,
    LAST_RESORT,
    Sign,
    sign_of,
)
from autotune.judge.traceback import FailingCall
from autotune.judge.wrappers import BENIGN, EXCEPTION, QUOTED, WRAPPER

_RESUMES = re.compile(r"torch_memory_saver|resume_memory_occupation|wake_up")
_MAPS_MEMORY = re.compile(r"cumem_allocator|cu_mem_create")
_MEMORY_HOLDER = re.compile(r"WorkerDict|\bWorker(?:_\w+)? pid=|EngineCore")
_ENGINE = re.compile(r"vLLM|SGLang|EngineCore")
_SEQUENCE_NUMBER = re.compile(r"SeqNum=(\d+)")
_FIRST_COLLECTIVES = 2


@dataclass(frozen=True)
class Attribution:
    """What a line means."""

    level: int
    kind: str
    phase: str
    """Empty where neither the lines nor a start-up milestone tell it."""


def attribute(line: ConsoleLine, call: FailingCall, start_phase: str) -> Attribution | None:
    """The meaning of a line, or None for the ordinary ones.

    Args:
        line: The line, undecorated.
        call: What the same writer's lines before it say about where it happened.
        start_phase: The start-up milestone reached; empty once steps are made.
    """
    if QUOTED.search(line.text):
        return None
    sign = sign_of(line.text)
    if sign is not None and sign.level in (CONSTRAINT, CLUSTER, HINT) and _is_benign(line):
        sign = None
    if sign is None:
        return _exception(line, call, call.phase or call.weak_phase or start_phase)
    phase = _phase(sign, line, call, start_phase)
    level, kind = _refined(sign, line, call, phase)
    if kind == FailureKind.REWARD_FUNCTION:
        phase = "reward"
    return Attribution(level=level, kind=kind, phase=phase)


def _is_benign(line: ConsoleLine) -> bool:
    return line.level in ("WARNING", "INFO", "DEBUG") or BENIGN.search(line.text) is not None


def _phase(sign: Sign, line: ConsoleLine, call: FailingCall, start_phase: str) -> str:
    if sign.phase and sign.level != CONSTRAINT:
        return sign.phase
    text_phase = "weight_sync" if sign.level == DEVICE_OOM and _RESUMES.search(line.text) else sign.phase
    found = call.phase or text_phase or call.weak_phase or start_phase
    if not found and sign.level == DEVICE_OOM and _is_wake_up(line, call):
        return "weight_sync"
    return found


def _exception(line: ConsoleLine, call: FailingCall, phase: str) -> Attribution | None:
    """A traceback's end that no sign knows: the frames may still say whose it is."""
    if not call.ends_here or not EXCEPTION.match(line.text) or WRAPPER.search(line.text) or _is_benign(line):
        return None
    if call.in_reward:
        return Attribution(CLUSTER, FailureKind.REWARD_FUNCTION.value, "reward")
    if phase == "weight_sync" and _ENGINE.search(line.source):
        return Attribution(COLLECTIVE, FailureKind.HANG_WEIGHT_SYNC.value, phase)
    return Attribution(HINT, FailureKind.UNKNOWN.value, phase)


def _refined(sign: Sign, line: ConsoleLine, call: FailingCall, phase: str) -> tuple[int, str]:
    """Level and kind of a sign, refined by what the surrounding lines say."""
    level, kind = sign.level, sign.kind.value
    if call.in_reward and level not in (DEVICE_OOM, HOST_OOM, LAST_RESORT):
        level, kind = CLUSTER, FailureKind.REWARD_FUNCTION.value
    elif sign.resolution in ("device_oom", "allocation"):
        level, kind = _memory(sign, line, call, phase)
    elif sign.resolution == "thread" and _is_capped(line, call) and not phases.is_start(phase):
        # A capped worker has no room for one more thread's stack.
        level, kind = DEVICE_OOM, oom_kind(phase)
    elif sign.resolution == "host_oom" and phase == "checkpoint":
        kind = FailureKind.OOM_HOST_CKPT.value
    elif sign.resolution == "collective" and _collectives(line.text) > _FIRST_COLLECTIVES:
        # The network has worked before, so this run's own ranks went apart.
        kind = hang_kind(phase or "update_actor")
    elif sign.resolution == "engine" and phase in ("weight_sync", "ready"):
        level, kind = COLLECTIVE, FailureKind.HANG_WEIGHT_SYNC.value
    return level, kind


def _memory(sign: Sign, line: ConsoleLine, call: FailingCall, phase: str) -> tuple[int, str]:
    if sign.resolution == "allocation" and not _is_capped(line, call):
        return HOST_OOM, FailureKind.OOM_HOST_RAM.value
    if _is_wake_up(line, call) and phase not in ("model_load", "rollout_start"):
        return sign.level, FailureKind.OOM_GPU_ROLLOUT_WAKEUP.value
    if phase == "weight_sync" and call.in_sender:
        return sign.level, FailureKind.OOM_GPU_WEIGHT_SYNC.value
    return sign.level, oom_kind(phase)


def _collectives(text: str) -> int:
    number = _SEQUENCE_NUMBER.search(text)
    return int(number[1]) if number else 0


def _is_capped(line: ConsoleLine, call: FailingCall) -> bool:
    return call.in_worker or _MEMORY_HOLDER.search(line.source) is not None


def _is_wake_up(line: ConsoleLine, call: FailingCall) -> bool:
    texts = (_RESUMES, _MAPS_MEMORY)
    return call.in_wake_up or any(text.search(line.text) for text in texts)
