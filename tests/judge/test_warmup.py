import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.judge.warmup import warmup_steps
from tests.judge.recorded import metric_rows

TIMES = st.lists(st.floats(0.01, 1e4), max_size=40)


def recorded_times():
    return [row.values["perf/time_per_step"] for row in metric_rows("grpo_tiny_40_steps")]


@pytest.mark.parametrize("steps", [2, 3, 4, 6, 15, 40])
def test_the_recorded_run_warms_up_in_one_step(steps):
    assert warmup_steps(recorded_times()[:steps]) == 1


@pytest.mark.parametrize(
    ("times", "left_out"),
    [
        ([], 0),
        ([30.0], 0),
        ([30.0, 3.0], 1),
        ([3.0, 3.0], 0),
        ([20.0, 9.0, 3.0, 3.1, 2.9, 3.0, 3.1, 3.0], 2),
        ([3.0, 3.1, 9.0, 3.0, 2.9, 3.1, 3.0, 3.0], 0),
        ([2.0, 2.5, 3.0, 3.5, 4.0, 4.5], 0),
        ([20.0, 19.0, 18.0, 3.0], 0),
    ],
    ids=[
        "nothing",
        "one",
        "two",
        "no warm-up",
        "two slow ones",
        "a hiccup later is none",
        "getting slower is none",
        "too short to tell",
    ],
)
def test_where_the_steady_steps_begin(times, left_out):
    assert warmup_steps(times) == left_out


@given(TIMES)
def test_never_more_than_half(times):
    assert warmup_steps(times) <= len(times) // 2


@given(TIMES, st.sampled_from([0.25, 4.0, 1024.0]))
def test_the_unit_does_not_matter(times, factor):
    assert warmup_steps([time * factor for time in times]) == warmup_steps(times)


def test_noise_alone_is_seldom_cut():
    draw = random.Random(1)
    cut = [warmup_steps([draw.gauss(3.0, 0.2) for _ in range(8)]) for _ in range(500)]
    assert sum(count > 0 for count in cut) < 50


def test_a_time_that_is_no_number_cuts_nothing():
    assert warmup_steps([30.0, float("nan"), 3.0, 3.0]) == 0
