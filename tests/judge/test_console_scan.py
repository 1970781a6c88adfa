"""The cheap look before the close one: nothing that means something is passed over, memory stays bounded."""

import io
import re
import sys

import pytest

from autotune.judge.console_scan import TRIGGERS, ConsoleScan
from autotune.judge.patterns import SIGNS
from tests.judge.recorded import console_lines

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser


def scanned(data):
    scan = ConsoleScan(io.BytesIO(data))
    return list(scan), scan


def required_texts(sequence):
    """Texts that every match of a parsed pattern holds; of alternatives, each must offer one."""
    texts, run = [], ""
    for code, value in sequence:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        letters = (
            {chr(one).lower() for kind, one in value if kind is codes.LITERAL} if code is codes.IN else set()
        )
        if len(letters) == 1 and len(value) == 2:
            run += letters.pop()
            continue
        texts, run = [*texts, run], ""
        if code is codes.SUBPATTERN:
            texts += required_texts(value[3])
        elif code is codes.BRANCH:
            options = [required_texts(option) for option in value[1]]
            if all(any(is_trigger(text) for text in option) for option in options):
                texts.append("error")
        elif code is codes.MAX_REPEAT and value[0] >= 1:
            texts += required_texts(value[2])
    return [*texts, run]


def is_trigger(text):
    return any(trigger.decode() in text.lower() for trigger in TRIGGERS)


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.kind.value}-{sign.pattern.pattern[:30]}")
def test_every_alternative_of_every_sign_holds_a_trigger(sign):
    parsed = list(parser.parse(sign.pattern.pattern))
    alternatives = parsed[0][1][1] if len(parsed) == 1 and parsed[0][0] is codes.BRANCH else [parsed]
    for alternative in alternatives:
        assert any(map(is_trigger, required_texts(alternative))), alternative


def test_lines_are_numbered_across_blocks():
    lines = [f"line {index}" for index in range(100_000)]
    lines[70_001] = "torch.OutOfMemoryError: CUDA out of memory"
    found, scan = scanned("\n".join(lines).encode())
    assert [line.number for line in found if "OutOfMemory" in line.text] == [70_002]
    assert scan.lines == 100_000
    assert scan.tail(2) == [(99_999, "line 99998"), (100_000, "line 99999")]


def test_lines_after_a_frame_are_read_closely():
    lines = ["plain"] * 5000 + ['  File "a.py", line 3, in f'] + ["plain"] * 5000
    found, _ = scanned("\n".join(lines).encode())
    assert [line.number for line in found][-41:] == list(range(5001, 5042))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_without_an_end_counts(end):
    found, scan = scanned(f"one\ntwo error{end}".encode())
    assert [line.text for line in found] == ["one", "two error"]
    assert scan.lines == 2


def test_a_line_that_never_ends_stays_bounded():
    class Endless(io.RawIOBase):
        left = 400

        def read(self, size=-1):
            self.left -= 1
            return b"\rTraining Progress: 1/2 [" * (size // 24) if self.left else b""

    scan = ConsoleScan(Endless())
    (line,) = list(scan)
    assert len(line.text) <= 64 * 1024
    assert scan.size_bytes > 90_000_000


def test_the_recorded_runs_lose_no_line_that_means_something():
    for name in ("oom_log_prob_cpu", "hang_weight_sync"):
        lines = console_lines(name)
        far = ["nothing"] * 4000
        found, _ = scanned("\n".join([*far, *lines]).encode())
        seen = {line.text for line in found}
        decisive = [line for line in lines if re.search(r"Error|Traceback|, line \d+", line)]
        assert decisive
        assert seen.issuperset(decisive)
