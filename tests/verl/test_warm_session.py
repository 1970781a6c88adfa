"""A warm session on real verl: every kind of change, an early end, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.records import Outcome
from autotune.verl_plugin.warm.wire import read_mark
from tests.verl.warm_story import CANDIDATES, GUARDED, GUARDED_STEPS, STEPS, Attempted

pytestmark = [pytest.mark.verl, pytest.mark.timeout(2400)]

Came = dict[str, Attempted]
SERVED = [name for name in CANDIDATES if name not in (*GUARDED, "too large")]


@pytest.fixture
def came(warm: Callable[[], Came]) -> Came:
    return warm()


def test_one_process_runs_them_all(came: Came) -> None:
    assert len({attempted.end.session for attempted in came.values()}) == 1
    assert [attempted.end.session_number for attempted in came.values()] == list(range(len(CANDIDATES)))


@pytest.mark.parametrize("name", SERVED)
def test_each_runs_its_steps_from_a_verified_start(came: Came, name: str) -> None:
    attempted = came[name]
    assert (attempted.end.exit_code, attempted.end.session_over) == (0, False), attempted.end.tail
    assert [row.step for row in attempted.rows] == list(range(1, STEPS + 1))
    mark = read_mark(attempted.paths.root)
    assert mark is not None
    assert mark.state == "completed"


def test_the_first_step_sees_the_same_policy_each_time(came: Came) -> None:
    """Before an update the policy is the reference: a KL that is not 0 would be what another one left."""
    for name in SERVED:
        assert came[name].rows[0].values["actor/kl_loss"] == pytest.approx(0.0, abs=1e-5)
        # Rollout and trainer agree, so the engine has the session's start too, also a new one.
        assert came[name].rows[0].values["training/rollout_probs_diff_mean"] < 1e-3


def test_each_sees_the_prompts_in_the_same_order(came: Came) -> None:
    """The order of the data is back as well; the mean length of a step's prompts tells the steps apart."""
    lengths = {name: [row.values["prompt_length/mean"] for row in came[name].rows] for name in SERVED}
    assert len(set(lengths["first"])) == STEPS
    assert all(seen == lengths["first"] for seen in lengths.values()), lengths


def test_settings_are_the_candidates_own(came: Came) -> None:
    assert came["other learning rate"].rows[-1].values["actor/lr"] == pytest.approx(3.0e-3)
    assert came["other batches"].rows[-1].values["actor/lr"] == pytest.approx(2.0e-4)
    tokens = {name: came[name].rows[0].values["perf/total_num_tokens"] for name in SERVED}
    assert tokens["other batches"] < 0.7 * tokens["first"]  # four answers a prompt in place of eight


@pytest.mark.parametrize(
    ("name", "kind", "phase"),
    [
        ("drifting", "kl_drift", "update_actor"),
        ("without finite gradients", "nan_inf", "update_actor"),
        ("paid with NaN", "nan_inf", "reward"),
    ],
)
def test_a_guard_ends_the_candidate_and_leaves_the_session_usable(
    came: Came, name: str, kind: str, phase: str
) -> None:
    stopped = came[name]
    assert stopped.stop is not None
    assert stopped.stop.reason
    assert (stopped.end.asked, stopped.end.session_over) == (True, False)
    assert 1 <= len(stopped.rows) < GUARDED_STEPS
    assert stopped.verdict.outcome is Outcome.FAILED
    assert stopped.verdict.failure is not None
    assert (stopped.verdict.failure.kind, stopped.verdict.failure.phase) == (kind, phase)


def test_out_of_memory_ends_the_session_and_leaves_nothing(came: Came) -> None:
    end = came["too large"].end
    # By itself, or by the guard that waits for it in vain on a busy machine.
    assert end.exit_code != 0
    assert (end.session_over, end.left_behind) == (True, ())
    failure = came["too large"].verdict.failure
    assert failure is not None
    assert (failure.kind, failure.phase) == ("oom_gpu_log_prob", "old_log_prob")
    assert "allocate memory" in failure.line


@pytest.mark.parametrize("name", list(CANDIDATES))
def test_each_is_a_run_of_its_own_in_the_users_tracker(came: Came, name: str) -> None:
    """TensorBoard's own reader finds the rows that the trial was read from, and no other candidate's."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    attempted = came[name]
    mirrored = EventAccumulator(str(attempted.paths.tensorboard)).Reload()
    rows = {row.step: row.values["perf/total_num_tokens"] for row in attempted.rows}
    if not rows:
        assert mirrored.Tags()["scalars"] == []
        return
    scalars = mirrored.Scalars("perf/total_num_tokens")
    assert {scalar.step: scalar.value for scalar in scalars} == pytest.approx(rows)
    assert len(scalars) == len(rows)


def test_no_tracker_was_left_out(came: Came) -> None:
    for attempted in came.values():
        assert "autotune mirror" not in attempted.paths.console.read_text(errors="replace")
