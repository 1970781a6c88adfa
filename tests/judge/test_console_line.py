import pytest

from autotune.judge.console_line import parse

BLUE, OFF = "\x1b[36m", "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "source", "text"),
    [
        ("plain", "", "plain"),
        (
            f"{BLUE}(WorkerDict pid=7, ip=10.0.0.1){OFF} RuntimeError: x",
            "WorkerDict pid=7",
            "RuntimeError: x",
        ),
        ('(W pid=7)   File "a.py", line 3, in step', "W pid=7", '  File "a.py", line 3, in step'),
        (
            "(vLLMHttpServer pid=1) (Worker pid=2) ERROR 12-01 05:20:21 [core.py:15]   File",
            "vLLMHttpServer pid=1 Worker pid=2",
            "  File",
        ),
        ("ERROR 07-01 12:00:00 core.py:390] ValueError: x", "", "ValueError: x"),
        ("(raylet) A worker died", "raylet", "A worker died"),
        ("[rank3]: Traceback (most recent call last):", "rank3", "Traceback (most recent call last):"),
        ("INFO:2026-12-01 05:20:20,142:ready to fit", "", "ready to fit"),
        ("2026-12-01 05:56:36,299 - WARNING - transfer_queue.utils.common - slow", "", "slow"),
        ("2026-12-01T05:56:36.299Z (pid=4) x", "pid=4", "x"),
        (f"same again{BLUE} [repeated 40x across cluster]{OFF}", "", "same again"),
        ("  1%|\r 50%|\r 99%|\r\n", "", " 99%|"),
    ],
)
def test_a_line_is_taken_apart(line, source, text):
    parsed = parse(line)
    assert (parsed.source, parsed.text) == (source, text)


def test_a_very_long_line_is_cut():
    assert len(parse("x" * 1_000_000).text) < 10_000
