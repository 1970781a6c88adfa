"""Numbers as people read them."""

import json
import math

import pytest

from autotune.report.wording import gigabytes, number, percent, seconds, strict


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
