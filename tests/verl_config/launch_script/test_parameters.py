from __future__ import annotations

import pytest

from autotune.verl_config.launch_script.parameters import matches, substring, transform


@pytest.mark.parametrize(
    ("sign", "value", "first", "second", "expected"),
    [
        ("##", "a/b/c.sh", "*/", "", "c.sh"),
        ("#", "a/b/c.sh", "*/", "", "b/c.sh"),
        ("%", "a.b.c", ".*", "", "a.b"),
        ("%%", "a.b.c", ".*", "", "a"),
        ("%", "abc", "x", "", "abc"),
        ("/", "aXbX", "X", "-", "a-bX"),
        ("//", "aXbX", "X", "-", "a-b-"),
        ("//", "a.b", ".", "/", "a/b"),
        (",,", "QwEn", "", "", "qwen"),
        ("^^", "qwen", "", "", "QWEN"),
        ("^", "qwen", "", "", "Qwen"),
        ("@Q", "qwen", "", "", None),
    ],
)
def test_transform(sign, value, first, second, expected):
    assert transform(sign, value, first, second) == expected


@pytest.mark.parametrize(
    ("start", "length", "expected"), [(0, 3, "abc"), (2, None, "cdef"), (-2, None, "ef"), (1, -1, "bcde")]
)
def test_substring(start, length, expected):
    assert substring("abcdef", start, length) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("fsdp2", "fsdp*", True),
        ("megatron", "fsdp*", False),
        ("a", "?", True),
        ("", "*", True),
        ("a*", r"a\*", True),
    ],
)
def test_matches(text, pattern, expected):
    assert matches(text, pattern) is expected
