from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.verl_config.launch_script.arithmetic import Undecided, arithmetic
from autotune.verl_config.launch_script.syntax import parse
from autotune.verl_config.launch_script.text import known, unknown

NAMES = {
    "a": known("3"),
    "b": known("-7"),
    "c": known("a * 2"),
    "late": unknown("$(date)", "printed by date"),
}


def value(text):
    script = parse(f"x=$(({text}))")
    node = script.root.named_children[0].child_by_field_name("value")
    return arithmetic(
        script,
        node,
        lambda name: NAMES.get(name, unknown(f"${name}", f"{name} is not set")),
        lambda node: known("5"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024 * 8", 8192),
        ("(a + 2) * 10", 50),
        ("b / 2", -3),
        ("b % 4", -3),
        ("c + 1", 7),
        ("2 ** 10", 1024),
        ("a > 2 ? 1 : 0", 1),
        ("0x10 + 010", 24),
        ("-a", -3),
        ("!a", 0),
        ("$n + 1", 6),
        ("1 << 4 | 1", 17),
    ],
)
def test_whole_numbers_as_bash_counts(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("late + 1", "printed by date"),
        ("gone * 2", "gone is not set"),
        ("1 / 0", "divides by zero"),
        ("2 ** 1000", "too large"),
        ("a = 4", "`=`|a = 4"),
    ],
)
def test_what_is_not_known_says_why(text, why):
    with pytest.raises(Undecided, match=why):
        value(text)


@settings(max_examples=50)
@given(
    st.recursive(
        st.integers(0, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "<", "=="]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        max_leaves=8,
    )
)
def test_any_expression_is_bashs(text):
    done = subprocess.run(["bash", "-c", f"echo $(({text}))"], capture_output=True, text=True, check=True)
    assert value(text) == int(done.stdout)
