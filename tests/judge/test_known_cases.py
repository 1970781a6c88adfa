"""Public reports: the kind that their quoted log lines give, alone and among a real run's lines."""

import json

import pytest

from tests.judge.recorded import DATA, console_lines, evidence_of, kind_of

CASES = [json.loads(line) for line in (DATA / "known_cases.jsonl").read_text().splitlines()]

# What these reports quote is an ordinary line of a run that went on; no line in it decides anything.
NOT_DECISIVE = {"metrics_missing", "config_semantics", "throughput_network", "truncation_high"}
DECISIVE = [case for case in CASES if case["category"] not in NOT_DECISIVE]


def names(cases):
    return [f"{case['id']}-{case['category']}" for case in cases]


@pytest.mark.parametrize("case", DECISIVE, ids=names(DECISIVE))
def test_the_quoted_lines_give_the_reports_kind(case):
    assert kind_of(case["log_lines"]) == case["category"]


@pytest.mark.parametrize("case", DECISIVE, ids=names(DECISIVE))
def test_a_real_runs_lines_around_them_change_nothing(case):
    lines = console_lines("grpo_tiny_40_steps")
    middle = 120
    found = evidence_of([*lines[:middle], *case["log_lines"], *lines[middle:]])
    assert found[0].kind == case["category"]
    assert middle < found[0].line_number <= middle + len(case["log_lines"])


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["category"] in NOT_DECISIVE],
    ids=names(case for case in CASES if case["category"] in NOT_DECISIVE),
)
def test_ordinary_lines_are_no_failure(case):
    assert kind_of(case["log_lines"]) == "unknown"
