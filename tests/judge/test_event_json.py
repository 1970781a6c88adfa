import json

import pytest

from autotune.judge.event_json import event_from_json, event_to_json
from autotune.records import (
    AttemptEnd,
    GuardStop,
    LogEvidence,
    MemorySample,
    MetricRow,
    PhaseMark,
    Progress,
)

EVENTS = [
    MetricRow(step=1, at_s=1.5, values={"critic/rewards/mean": None, "actor/lr": 1e-6}),
    PhaseMark(phase="rollout", at_s=2.0),
    MemorySample(at_s=2.0, phase="rollout", device="rank:0", used_gb=1.25, capacity_gb=2.0, host_gb=3.5),
    LogEvidence(line_number=7, text="x", kind="oom_gpu_log_prob", phase="old_log_prob", level=4, at_s=3.0),
    Progress(at_s=4.0, lines=2),
    GuardStop(kind="kl_drift", phase="rollout", reason="too far", at_s=5.0),
    AttemptEnd(at_s=6.0, exit_code=None, asked=True, clean_up_s=0.5, left_behind=(4, 5), tail=("a", "b")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_way_through_json(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_a_newer_versions_field_is_left_out_and_a_missing_one_takes_its_default():
    value = {"type": "attempt_end", "at_s": 1.0, "exit_code": 1, "asked": False, "later": True}
    assert event_from_json(value) == AttemptEnd(at_s=1.0, exit_code=1, asked=False)


@pytest.mark.parametrize("value", [{}, {"type": "weather"}, {"type": "phase_mark", "at_s": 1.0}])
def test_what_is_no_event_is_refused(value):
    with pytest.raises(ValueError, match=r"type must be one of|phase_mark"):
        event_from_json(value)
