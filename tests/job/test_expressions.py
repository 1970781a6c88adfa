from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.job.expressions import ExpressionError, evaluate, names_in

NAMES = {"sequence_tokens": 80, "gpus": 2, "share": 0.5, "dynamic": True, "mode": "async", "unset": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sequence_tokens * 8", 640),
        ("  sequence_tokens // 3 ", 26),
        ("sequence_tokens % 3 == 2", True),
        ("-gpus + 10 / 4", 0.5),
        ("2 ** log2(8)", 8.0),
        ("min(gpus, 1) + max(1, 2, 3)", 4),
        ("ceil(share) + floor(2.7)", 3),
        ("dynamic and not gpus > 4", True),
        ("not dynamic", False),
        ("1 < gpus <= 2", True),
        ("1 < gpus < 2", False),
        ("mode == 'async' or mode == 'sync'", True),
        ("unset == null", True),
        ("dynamic == true", True),
        ("dynamic or missing", True),
        ("'text'", "text"),
        ("7", 7),
    ],
)
def test_value(text, value):
    result = evaluate(text, NAMES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "part", "reason"),
    [
        ("", "", "not an expression"),
        ("1 +", "1 +", "not an expression"),
        ("sequence_token", "sequence_token", "unknown name"),
        ("__import__('os')", "__import__('os')", "unknown function"),
        ("gpus.real", "gpus.real", "not part of the language"),
        ("[gpus]", "[gpus]", "not part of the language"),
        ("(lambda: 1)()", "(lambda: 1)()", "unknown function"),
        ("gpus if dynamic else 1", "gpus if dynamic else 1", "not part of the language"),
        ("f'{gpus}'", "f'{gpus}'", "not part of the language"),
        ("1j", "1j", "only numbers"),
        ("max()", "max()", "plain values"),
        ("max(*gpus)", "max(*gpus)", "plain values"),
        ("~gpus", "~gpus", "not part of the language"),
        ("gpus << 9", "gpus << 9", "not part of the language"),
        ("1 / (gpus - 2)", "1 / (gpus - 2)", "division by zero"),
        ("2 ** 65", "2 ** 65", "exponent beyond"),
        ("9 ** 64", "9 ** 64", "beyond 64 bits"),
        ("10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64", "", "no finite value"),
        ("(-8) ** 0.5", "", "no real value"),
        ("log2(0)", "log2(0)", ""),
        ("mode * 3", "mode", "is the text 'async'"),
        ("unset + 1", "unset", "is null"),
        ("mode < 3", "mode", "is the text"),
        ("1" * 401, "1111", "longer than"),
    ],
)
def test_refused(text, part, reason):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, NAMES)
    assert part in caught.value.part
    assert reason in caught.value.reason
    assert caught.value.allowed


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ExpressionError, match=r"gpu.*dynamic, gpus, mode"):
        evaluate("gpu", NAMES)


def test_names_leave_out_functions_and_constants():
    assert names_in("max(a, b) > 2 and not true or c == 'd'") == {"a", "b", "c"}


numbers = st.integers(-1000, 1000).map(str) | st.sampled_from(["a", "b", "c"])
arithmetic = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=12,
)


@given(arithmetic, st.integers(-50, 50), st.integers(-50, 50), st.integers(-50, 50))
def test_agrees_with_python(text, a, b, c):
    names = {"a": a, "b": b, "c": c}
    expected = eval(text, {"min": min, "max": max}, names)  # text is made above, of safe pieces
    if len(text) <= 400 and abs(expected) < 2**60:
        try:
            value = evaluate(text, names)
        except ExpressionError:
            value = expected  # some step on the way was beyond 64 bits
        assert value == expected


@given(st.text(max_size=60))
def test_any_text_has_a_plain_value_or_an_expression_error(text):
    try:
        names_in(text)
        value = evaluate(text, {"x": 1.5})
    except ExpressionError:
        return
    assert value is None or isinstance(value, (bool, int, float, str))
    assert not isinstance(value, float) or math.isfinite(value)
