"""What is told of a run, by what it is told of; and that every end of a run is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.controller.notices import Notice, end_is_told, end_notice, finish_notice, stage_notice
from autotune.errors import (
    AutotuneError,
    Fault,
    NothingFeasibleError,
    ResourceError,
    StoppedError,
    StoreError,
    UserCodeError,
)
from autotune.records import Arm, Figures, FinishOutcome, FinishVerdict, StageName, StageResult
from tests.controller.conftest import job_of

FAULT = Fault(where="here", found="that")
BEST = Figures(tokens_per_s_per_gpu=1200.0, reward=float("nan"), kl=0.07, peak_memory_frac=0.71)
RESULT = StageResult(
    stage=StageName.SPEED,
    trials=6,
    accepted=(4,),
    acceptance_met=True,
    best=4,
    statement="1.4 times as fast",
    best_figures=BEST,
)
VERDICT = FinishVerdict(
    outcome=FinishOutcome.NOT_BETTER, statement="as fast as before", winner={}, reference=Arm.OWN
)
JOB = job_of(Path("results"))


def test_a_stages_end_holds_its_best_trials_figures_as_strict_json() -> None:
    told = json.loads(stage_notice(JOB, RESULT).to_json(), parse_constant=pytest.fail)
    assert (told["event"], told["job"], told["stage"]) == ("stage_end", "played", "speed")
    assert (told["outcome"], told["acceptance_met"], told["exit_code"]) == ("accepted", True, None)
    assert told["best"] == {
        "trial": 4,
        "tokens_per_s_per_gpu": 1200.0,
        "reward": None,
        "validation_reward": None,
        "kl": 0.07,
        "peak_memory_frac": 0.71,
        "peak_memory_gb": None,
        "step_s": None,
    }
    assert told["text"] == "autotune played: stage speed ended, accepted: 1.4 times as fast"


@pytest.mark.parametrize(
    ("change", "outcome", "trial"),
    [
        ({"acceptance_met": False}, "not accepted", 4),
        ({"acceptance_met": False, "best": None, "accepted": ()}, "nothing feasible", None),
    ],
)
def test_a_stages_outcome(change: dict[str, Any], outcome: str, trial: int | None) -> None:
    notice = stage_notice(JOB, replace(RESULT, **change))
    assert (notice.outcome, notice.best.get("trial")) == (outcome, trial)


def test_the_finish_ends_like_a_stage_by_its_verdict() -> None:
    notice = finish_notice(JOB, VERDICT)
    assert (notice.event, notice.stage, notice.outcome) == ("stage_end", "finish", "not better")


@pytest.mark.parametrize(
    ("error", "outcome", "code", "statement"),
    [
        (StoppedError("stopped: SIGINT; go on"), "stopped", 4, "stopped: SIGINT; go on"),
        (KeyboardInterrupt(), "stopped", 4, "KeyboardInterrupt"),
        (NothingFeasibleError("survive: none"), "nothing feasible", 3, "survive: none"),
        (UserCodeError(FAULT), "user code", 2, "here; found that"),
        (ResourceError(FAULT), "bad input", 2, "here; found that"),
        (AutotuneError("three lost in a row"), "failed", 1, "three lost in a row"),
        (ZeroDivisionError("division by zero"), "failed", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_stop_says_why_and_what_was_reached(
    error: BaseException, outcome: str, code: int, statement: str
) -> None:
    notice = end_notice(JOB, error, {StageName.SPEED: RESULT})
    assert (notice.event, notice.outcome, notice.exit_code) == ("stop", outcome, code)
    assert (notice.statement, notice.best["trial"]) == (statement, 4)


def test_the_end_says_the_verdict_or_what_the_last_stage_reached() -> None:
    results = {StageName.SPEED: RESULT}
    ended, confirmed = end_notice(JOB, None, results), end_notice(JOB, None, results, VERDICT)
    assert (ended.event, ended.outcome, ended.exit_code) == ("finish", "done", 0)
    assert ended.statement == "speed: 1.4 times as fast"
    assert (confirmed.outcome, confirmed.statement) == ("not better", "as fast as before")


@pytest.mark.parametrize(
    ("storage", "name"),
    [
        ({}, "played"),
        ({"results": "elsewhere"}, "elsewhere/played.db"),
        ({"url": "postgresql://me:word@host/db"}, "JOB.yaml"),
    ],
)
def test_commands_name_the_job_and_never_a_databases_password(storage: dict[str, str], name: str) -> None:
    notice = stage_notice(job_of(Path("results"), storage=storage), RESULT)
    assert notice.see[0] == f"autotune status --job {name}"
    assert "word" not in notice.to_json()


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def tell(self, notice: Notice) -> None:
        self.notices.append(notice)


def test_a_run_tells_each_stages_end_and_its_own(rig: Any) -> None:
    heard = Heard()
    with rig() as one:
        services = replace(one.services, notifier=heard)
        with end_is_told(services):
            run_ladder(services, one.controller, [StageName.SURVIVE])
    assert [(n.event, n.stage, n.exit_code) for n in heard.notices] == [
        ("stage_end", "survive", None),
        ("finish", None, 0),
    ]
    assert heard.notices[-1].best == heard.notices[-2].best


def test_a_stop_is_told_and_stays_what_it_is(rig: Any) -> None:
    heard = Heard()
    with rig() as one:
        services = replace(one.services, notifier=heard)
        one.controller.stop("SIGINT")
        with pytest.raises(StoppedError), end_is_told(services):
            run_ladder(services, one.controller, [StageName.SURVIVE])
    (notice,) = heard.notices
    assert (notice.event, notice.outcome, notice.exit_code, notice.best) == ("stop", "stopped", 4, {})
    assert "SIGINT" in notice.statement


def test_a_store_that_cannot_be_read_does_not_hide_the_reason(rig: Any) -> None:
    class Broken:
        def stage_results(self) -> None:
            raise StoreError(FAULT)

    heard = Heard()
    with rig() as one:
        services = replace(one.services, notifier=heard, store=Broken())
        with pytest.raises(StoreError, match="full"), end_is_told(services):
            raise StoreError(Fault(where="disk", found="full"))
    assert [(n.outcome, n.statement) for n in heard.notices] == [("bad input", "disk; found full")]
