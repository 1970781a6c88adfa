"""Reads a console log of any size and gives on only the lines that may mean something, numbered.

A healthy log of a gigabyte holds few lines that the judge must look at closely. Blocks are searched
for plain texts first (TRIGGERS), which is an order of magnitude faster than taking every line
apart; memory stays bounded whatever the log holds, lines without an end included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_BLOCK_BYTES = 256 * 1024
_LINE_BYTES = 64 * 1024
_TAIL_BYTES = 64 * 1024
_WHOLE_AT_START = 3000
"""Lines read closely where a run starts: verl prints its configuration there, about 1100 lines."""
_WHOLE_AFTER_FRAME = 40
"""Lines read closely after a traceback's frame: what comes between it and its exception."""

_FRAME_TRIGGERS = (b", line ", b"traceback", b"ray::")
_START_TRIGGERS = (b"ray init kwargs", b"[validate_config]")
_ROW_TRIGGERS = (b"step:", b"training progress:")

_ERROR_TRIGGERS = tuple(
    text.encode()
    for text in (
        *("error", "exception", "assert", "failed to", "failure", "unable to", "encountered", "died"),
        *("memory", "oom", "kill", "bad_alloc", "mmap", "object store", "no space left", "quota"),
        *("errno", "eaddrinuse", "in use", "is over 9", "sigbus", "sigsegv", "segmentation"),
        *("gpus", "thread", "register", "raylet", "timed out", "ray instance", "unexpectedly"),
        *("nccl", "watchdog", "cublas", "cuda driver", "uncorrectable", "nvrm", "fallen off"),
        *("longer", "exceed", "larger", "greater", "smaller", "less than", "divisible"),
        *("context length", "maximum model length", "at least one request", "too large to fit"),
        *("importance sampling", "rollout_is", "rollout_corr", "tis", "offlinemode"),
        *("could not override", "not in struct", "missingmandatory", "please set", "validation"),
        *("name resolution", "unreachable", "connect to", "trust_remote_code", "load tokenizer"),
        *("tokenizer class", "unrecognized", "architecture", "chat template", "chat_template"),
        *("not a local folder", "path_or_model_id", "file named", "undefined symbol", "not compiled"),
        *("not finite", " nan", "detected", "actor is dead"),
        *("main_ppo", "actor engine initialized", "worker group kwargs", "engine initialized"),
        *("engine manager initialized", "ready to fit", "cuda error", "system_error"),
    )
)

TRIGGERS: tuple[bytes, ...] = (*_FRAME_TRIGGERS, *_START_TRIGGERS, *_ROW_TRIGGERS, *_ERROR_TRIGGERS)
"""Lower-case texts; a line without any of them means nothing to the judge."""


@dataclass(frozen=True)
class ScannedLine:
    """A line that is worth looking at."""

    number: int
    """1-based, counting every line of the log."""
    text: str
    may_fail: bool = True
    """Whether it holds a trigger or follows a traceback's frame; else it only belongs to a run's start."""


class ConsoleScan:
    """One pass over a log: iterate over the lines selected, then read `lines`, `size_bytes` and `tail`."""

    def __init__(self, stream: BinaryIO) -> None:
        self.lines = 0
        """Lines read so far."""
        self.size_bytes = 0
        self._stream = stream
        self._tail = b""
        self._whole_until = _WHOLE_AT_START
        self._frame_until = 0

    def __iter__(self) -> Iterator[ScannedLine]:
        """The selected lines in order."""
        rest = b""
        while block := self._stream.read(_BLOCK_BYTES):
            self.size_bytes += len(block)
            self._tail = (self._tail + block)[-_TAIL_BYTES:]
            end = block.rfind(b"\n") + 1
            if end == 0:
                rest = _shortened(rest + block)
                continue
            whole, rest = rest + block[:end], block[end:]
            yield from self._of_block(whole)
        if rest:
            yield from self._of_block(rest)

    def tail(self, count: int) -> list[tuple[int, str]]:
        """The last lines that are not empty, numbered, after the pass."""
        texts = self._tail.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
        first = self.lines - len(texts) + 1
        numbered = [(first + index, text) for index, text in enumerate(texts) if text.strip()]
        return list(deque(numbered, maxlen=count))

    def _of_block(self, block: bytes) -> Iterator[ScannedLine]:
        """The selected lines of `block`, which ends at a line's end."""
        lower = block.lower()
        starts: deque[int] | None = None
        at = 0
        while at < len(block):
            if self.lines >= self._whole_until:
                starts = deque(_hits(lower)) if starts is None else starts
                while starts and starts[0] < at:
                    starts.popleft()
                until = starts[0] if starts else len(block)
                self.lines += _line_ends(block, at, until)
                at = until
                if at >= len(block):
                    return
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            self.lines += 1
            line = lower[at : min(end, at + _LINE_BYTES)]
            self._widen(line)
            may_fail = self.lines <= self._frame_until or any(text in line for text in TRIGGERS)
            yield ScannedLine(self.lines, _decoded(block[at:end]), may_fail)
            at = end + 1

    def _widen(self, line: bytes) -> None:
        """Reads on closely after lines that announce others."""
        if any(text in line for text in _START_TRIGGERS):
            self._whole_until = max(self._whole_until, self.lines + _WHOLE_AT_START)
        elif any(text in line for text in _FRAME_TRIGGERS):
            self._frame_until = self.lines + _WHOLE_AFTER_FRAME
            self._whole_until = max(self._whole_until, self._frame_until)


def _hits(lower: bytes) -> list[int]:
    """Where the lines begin that hold a trigger, in order."""
    starts: set[int] = set()
    for text in TRIGGERS:
        found = lower.find(text)
        while found >= 0:
            starts.add(lower.rfind(b"\n", 0, found) + 1)
            end = lower.find(b"\n", found)
            found = -1 if end < 0 else lower.find(text, end)
    return sorted(starts)


def _line_ends(block: bytes, start: int, end: int) -> int:
    """Lines between two places; an unfinished last one counts."""
    ends = block.count(b"\n", start, end)
    return ends + (1 if start < end == len(block) and block[-1:] != b"\n" else 0)


def _shortened(line: bytes) -> bytes:
    """Head and end of a line that does not end: a progress bar may redraw itself for hours."""
    if len(line) <= 4 * _LINE_BYTES:
        return line
    return line[:_LINE_BYTES] + line[-_LINE_BYTES:]


def _decoded(line: bytes) -> str:
    return _shortened_to(line).decode("utf-8", errors="replace")


def _shortened_to(line: bytes) -> bytes:
    if len(line) <= _LINE_BYTES:
        return line
    # What is drawn last stands after the last carriage return.
    last = line[line.rfind(b"\r") + 1 :]
    return last[:_LINE_BYTES]
