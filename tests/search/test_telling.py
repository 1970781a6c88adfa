"""What Optuna is told: the state by outcome, constraints mirrored, a note for people."""

import pytest

from autotune.records import Failure, FailureGroup, Figures, Outcome, Verdict
from autotune.search.telling import telling

MEASURED = Figures(
    steps=4,
    steps_asked=4,
    peak_memory_frac=0.71234,
    peak_memory_phase="update_actor",
    tokens_per_s_per_gpu=1234.56789,
    reward=0.3,
    kl=0.06,
)
OOM = Failure(
    kind="oom_gpu_actor_update",
    group=FailureGroup.CANDIDATE,
    phase="update_actor",
    cause="Device memory ran out in the actor's update.",
    line_number=812,
    line="torch.OutOfMemoryError: CUDA out of memory",
)
MEMORY = {"memory_update_actor": 0.27501}


def tell(outcome, *, failure=None, objective=None, constraints=MEMORY, figures=MEASURED, **more):
    verdict = Verdict(outcome=outcome, figures=figures, failure=failure, **more)
    return telling(verdict, objective=objective, constraints=constraints, accepted=False, origin="sampler")


@pytest.mark.parametrize(
    ("outcome", "objective", "state", "value", "teaches"),
    [
        (Outcome.COMPLETED, 1.25, "complete", 1.25, True),
        (Outcome.COMPLETED, 0.0, "complete", 0.0, True),
        (Outcome.COMPLETED, None, "pruned", None, True),
        (Outcome.FAILED, 0.5, "pruned", None, True),
        (Outcome.FAILED, None, "pruned", None, True),
        (Outcome.REJECTED, None, "pruned", None, True),
        (Outcome.INFRASTRUCTURE, 0.5, "fail", None, False),
        (Outcome.USER_FAULT, None, "fail", None, False),
        (Outcome.STOPPED, 0.5, "fail", None, False),
    ],
)
def test_state_by_outcome(outcome, objective, state, value, teaches):
    told = tell(outcome, objective=objective)
    assert (told.state, told.value) == (state, value)
    assert told.constraints == (MEMORY if teaches else {})
    assert ("constraint memory_update_actor" in told.attributes) is teaches
    assert told.attributes["outcome"] == outcome.value


def test_attributes_of_a_failure():
    told = tell(Outcome.FAILED, failure=OOM, warnings=("responses clipped",))
    assert told.attributes == {
        "origin": "sampler",
        "outcome": "failed",
        "accepted": False,
        "steps": "4/4",
        "peak_memory_frac": 0.7123,
        "tokens_per_s_per_gpu": 1234.5679,
        "reward": 0.3,
        "kl": 0.06,
        "constraint memory_update_actor": 0.275,
        "kind": "oom_gpu_actor_update",
        "phase": "update_actor",
        "cause": "Device memory ran out in the actor's update.",
        "warnings": ["responses clipped"],
    }


def test_what_was_not_measured_is_no_attribute():
    told = tell(Outcome.FAILED, figures=Figures(steps=0, steps_asked=4), constraints={})
    assert set(told.attributes) == {"origin", "outcome", "accepted", "steps"}


def test_the_note_has_the_decisive_line_and_the_constraints():
    note = tell(Outcome.FAILED, failure=OOM).note
    assert "**failed** (sampler)" in note
    assert "`oom_gpu_actor_update` in `update_actor`" in note
    assert "Console line 812:\n\n    torch.OutOfMemoryError: CUDA out of memory" in note
    assert "Peak memory 71% of the device in `update_actor`." in note
    assert "| memory_update_actor | +0.275 |" in note


def test_the_note_of_an_accepted_trial_says_so():
    verdict = Verdict(outcome=Outcome.COMPLETED, figures=MEASURED)
    told = telling(verdict, objective=1.2, constraints={}, accepted=True, origin="user configuration")
    assert told.note.startswith("**completed**, accepted (user configuration)")
    assert "constraint" not in told.note
