import pytest

from autotune.verl_plugin.token_check import Sample, checking_once, faults_of

END = 9
MESSAGES = [{"role": "user", "content": "x"}]


def template(messages):
    return [1, 2, 3, 4]


def sample(**changes):
    right = {"prompt_ids": [1, 2, 3, 4], "response_ids": [5, 6, END], "response_mask": [1, 1, 1]}
    return Sample(**{**right, "messages": MESSAGES, **changes})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"prompt_ids": [1, 2, 7, 4]},
            "the prompt's 4 ids differ from the chat template's 4 from token 2 on",
        ),
        ({"prompt_ids": [1, 2, 3]}, "the prompt's 3 ids differ from the chat template's 4 in length"),
        ({"response_mask": [1, 1]}, "the response mask has 2 entries for 3 ids"),
        ({"response_mask": [1, 2, 1]}, "the response mask has values besides 0 and 1: [1, 2]"),
        ({"response_mask": [1, 0, 1]}, "1 ids of a single response are masked out"),
        ({"response_ids": [5, 6, 7]}, "the response ends with token 7 at 3 of 5 tokens"),
    ],
)
def test_what_does_not_agree(changes, fault):
    assert list(faults_of(sample(**changes), template, [END], (8, 5))) == [fault]


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({}, (8, 5)),
        ({"response_ids": [5, 6, 7]}, (8, 3)),  # cut off at the limit: no end token
        ({"prompt_ids": [3, 4]}, (2, 5)),  # verl cuts a long prompt at its beginning
        ({"response_ids": [], "response_mask": []}, (8, 5)),
    ],
)
def test_what_agrees(changes, limits):
    assert list(faults_of(sample(**changes), template, [END], limits)) == []


def test_a_check_that_cannot_run_ends_no_training():
    computed = []
    checked = checking_once(lambda *args: computed.append(args), module=object())
    metrics = {}
    for _ in range(2):
        checked("trainer", "batch", metrics, {})
    assert len(computed) == 2
    assert metrics == {}
