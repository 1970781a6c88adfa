"""Numbers as people read them."""

import json
import math

import pytest

from autotune.report.wording import (
    counted,
    factor,
    gigabytes,
    number,
    percent,
    seconds,
    signed_percent,
    strict,
    value_text,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (percent(0.8), "80 %"),
        (percent(None), "-"),
        (number(0.12345), "0.1235"),
        (number(12345.6), "12,346"),
        (number(0), "0"),
        (number(math.nan), "nan"),
        (gigabytes(71.54), "71.5 GB"),
        (seconds(12.4), "12 s"),
        (seconds(59.6), "1 min 00 s"),
        (seconds(200), "3 min 20 s"),
        (seconds(7500), "2 h 05 min"),
        (seconds(None), "-"),
    ],
)
def test_wording(text, wanted):
    assert text == wanted


def test_strict_json_has_no_nan():
    value = strict({"a": [1.0, math.nan], "b": (True, math.inf), "c": {"d": "x"}})
    assert json.loads(json.dumps(value, allow_nan=False)) == {
        "a": [1.0, None],
        "b": [True, None],
        "c": {"d": "x"},
    }


@pytest.mark.parametrize(("gain", "text"), [(None, "-"), (1.299, "1.29x"), (1.3, "1.30x"), (0.7, "0.70x")])
def test_a_gain_is_cut_off_not_rounded(gain, text):
    assert factor(gain) == text


@pytest.mark.parametrize(("fraction", "text"), [(None, "-"), (0.1234, "+12.3 %"), (-0.05, "-5.0 %")])
def test_a_change_has_its_sign(fraction, text):
    assert signed_percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (True, "true"), (3e-6, "3e-06"), ([1, "a"], '[1, "a"]'), ("x", "x")]
)
def test_values_as_yaml_has_them(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("names", "text"), [(["H100", "H100", "A10"], "2 x H100, A10"), ([], ""), (None, "")]
)
def test_equal_names_are_counted(names, text):
    assert counted(names) == text
