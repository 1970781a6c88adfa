"""Whatever is stored comes back equal, NaN and infinities included."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.records import (
    Arm,
    AttemptEnd,
    Candidate,
    Comparison,
    Failure,
    FailureGroup,
    Figures,
    FinishOutcome,
    FinishPlan,
    FinishVerdict,
    Outcome,
    StageName,
    StageResult,
    Verdict,
)
from autotune.store.codec import (
    candidate_from_text,
    end_from_text,
    finish_plan_from_text,
    finish_verdict_from_text,
    from_text,
    stage_result_from_text,
    to_text,
    verdict_from_text,
)

keys = st.text(max_size=8) | st.sampled_from(["$float", "$", "$$float", "$ref"])
floats = st.floats(allow_nan=False)  # NaN is not equal to itself; it has a test of its own
scalars = st.none() | st.booleans() | st.integers() | floats | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)
optional_floats = st.none() | floats

figures = st.builds(
    Figures,
    steps=st.integers(0, 500),
    steps_asked=st.integers(0, 500),
    peak_memory_frac=optional_floats,
    peak_memory_gb=optional_floats,
    peak_memory_phase=st.sampled_from(["", "update_actor"]),
    peak_by_phase_frac=st.dictionaries(st.text(max_size=8), floats, max_size=3),
    tokens_per_s_per_gpu=optional_floats,
    reward=optional_floats,
    kl=optional_floats,
    kl_estimator=st.sampled_from(["", "k3"]),
    validation_reward=optional_floats,
)
failures = st.builds(
    Failure,
    kind=st.just("oom_gpu_actor_update"),
    group=st.sampled_from(FailureGroup),
    phase=st.text(max_size=8),
    cause=st.text(max_size=20),
    line_number=st.none() | st.integers(1, 10**6),
    line=st.text(max_size=40),
)
verdicts = st.builds(
    Verdict,
    outcome=st.sampled_from(Outcome),
    figures=figures,
    failure=st.none() | failures,
    warnings=st.lists(st.text(max_size=10), max_size=2).map(tuple),
    signs=st.lists(st.text(max_size=10), max_size=2).map(tuple),
)
candidates = st.builds(
    Candidate,
    params=st.dictionaries(keys, values, max_size=4),
    origin=st.text(max_size=20),
    diagnosis=st.text(max_size=20),
    reason=st.text(max_size=20),
)
ends = st.builds(
    AttemptEnd,
    at_s=floats,
    exit_code=st.none() | st.integers(-64, 255),
    asked=st.booleans(),
    left_behind=st.lists(st.integers(1, 10**6), max_size=2).map(tuple),
    tail=st.lists(st.text(max_size=20), max_size=3).map(tuple),
    lost=st.booleans(),
)
stage_results = st.builds(
    StageResult,
    stage=st.sampled_from(StageName),
    trials=st.integers(0, 100),
    accepted=st.lists(st.integers(0, 100), max_size=3).map(tuple),
    acceptance_met=st.booleans(),
    best=st.none() | st.integers(0, 100),
    statement=st.text(max_size=30),
    baseline=st.none() | figures,
    best_figures=st.none() | figures,
    overrides=st.dictionaries(keys, values, max_size=3),
)
whole = st.lists(st.integers(0, 10**6), max_size=3).map(tuple)
finish_plans = st.builds(
    FinishPlan,
    pairs=st.integers(2, 20),
    looks=whole,
    alphas=st.lists(floats, max_size=2).map(tuple),
    after=whole,
    least_gain_frac=floats,
    goals=st.lists(st.text(max_size=8), max_size=2).map(tuple),
    seeds=whole,
    steps=st.integers(2, 100),
    validation=st.booleans(),
    winner=st.dictionaries(keys, values, max_size=3),
    survivor=st.none() | st.dictionaries(keys, values, max_size=3),
    is_own=st.booleans(),
)
compared = st.builds(
    Comparison,
    metric=st.text(max_size=8),
    gain=floats,
    low=floats,
    high=floats,
    claimed=floats,
    reference=floats,
    winner=floats,
    outcome=st.sampled_from(FinishOutcome),
)
finish_verdicts = st.builds(
    FinishVerdict,
    outcome=st.sampled_from(FinishOutcome),
    statement=st.text(max_size=20),
    winner=st.dictionaries(keys, values, max_size=3),
    reference=st.none() | st.sampled_from(Arm),
    own_failure=st.text(max_size=20),
    comparisons=st.lists(compared, max_size=3).map(tuple),
    seeds=whole,
    notes=st.lists(st.text(max_size=20), max_size=2).map(tuple),
)


def types_too(value):
    """1, 1.0 and True are equal in Python and different to verl."""
    if isinstance(value, dict):
        return {key: types_too(item) for key, item in value.items()}
    if isinstance(value, list):
        return [types_too(item) for item in value]
    return (type(value), value)


@given(values)
def test_any_value_round_trips_with_its_types(value):
    assert types_too(from_text(to_text(value))) == types_too(value)


@given(values)
def test_text_is_json_of_the_standard(value):
    json.loads(to_text(value), parse_constant=lambda constant: pytest.fail(constant))
    assert to_text(value).isascii()


def test_nan_round_trips():
    assert math.isnan(from_text(to_text({"reward": math.nan}))["reward"])


@pytest.mark.parametrize(
    ("records", "decode"),
    [
        (candidates, candidate_from_text),
        (verdicts, verdict_from_text),
        (ends, end_from_text),
        (stage_results, stage_result_from_text),
        (finish_plans, finish_plan_from_text),
        (finish_verdicts, finish_verdict_from_text),
    ],
    ids=["candidate", "verdict", "end", "stage result", "finish plan", "finish verdict"],
)
def test_records_round_trip(records, decode):
    @given(records)
    def check(record):
        assert decode(to_text(record)) == record

    check()
