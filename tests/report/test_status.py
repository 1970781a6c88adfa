"""Where a job stands, before, during and after a stage."""

import json

import pytest

from autotune.job.model import Job
from autotune.report.status import read_status, status_json, status_view

SPACE = {"name": "s", "parameters": {"a.b": {"kind": "int", "low": 1, "high": 4}}}


@pytest.fixture
def job():
    stage = {"search_space": SPACE, "steps": 4, "trials": 12}
    return Job.model_validate(
        {
            "name": "tiny",
            "verl": {"overrides": {}},
            "budget": {"gpu_hours": 2.0, "trials": 40},
            "stages": {"survive": stage, "speed": stage},
        }
    )


def test_a_job_half_way_up(climbed, job):
    answer = json.loads(json.dumps(status_json(read_status(climbed, job)), allow_nan=False))
    survive, speed = answer["stages"]
    assert (survive["trials"], survive["accepted"], survive["acceptance_met"]) == (2, [0], True)
    assert (survive["best"], survive["best_trial"]["peak_memory_frac"]) == (0, 0.715)
    assert survive["outcomes"] == {"completed": 1, "failed": 1}
    assert (speed["state"], speed["running"], speed["trials_planned"]) == ("open", 1, 12)
    assert (speed["accepted"], speed["acceptance_met"], speed["best"]) == ([], None, None)
    assert answer["budget"] == {
        "gpu_hours": {"used": 0.1, "limit": 2.0},
        "trials": {"used": 3, "limit": 40},
        "wall_hours": {"used": 1.0, "limit": None},
    }
    assert answer["verdict"].startswith("survive: #0 ran")
    assert [(e["stage"], e["outcome"], e["gpu_s"]) for e in answer["ledger"]["entries"]] == [
        ("survive", "completed", 180.0),
        ("survive", "failed", 180.0),
        ("speed", "running", 0.0),
    ]


def test_without_the_job_file_limits_are_absent(climbed):
    answer = status_json(read_status(climbed))
    assert [stage["state"] for stage in answer["stages"]] == ["ended", "open", "waiting"]
    assert answer["budget"]["gpu_hours"] == {"used": 0.1, "limit": None}


def test_before_the_first_trial(store, job):
    answer = status_json(read_status(store, job))
    assert [stage["trials"] for stage in answer["stages"]] == [0, 0]
    assert answer["verdict"] == "no stage has ended yet"


def test_the_view_for_people(climbed, job, printed):
    text = printed(status_view(read_status(climbed, job)))
    assert "2 of 12" in text
    assert "#0: peak 72 %, 1,234 tok/s/GPU, reward 0.62, KL 0.08" in text
    assert "used: 0.1 of 2 GPU hours, 3 of 40 trials, 1 hours" in text
