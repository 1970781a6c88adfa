"""Trials of different sizes in one study, and sessions that are used again: which trial starts when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autotune.controller.ladder_run import run_ladder
from autotune.controller.line import batch_of, smallest_gpus
from autotune.job.resolved_space import ResolvedParameter, ResolvedSpace
from autotune.judge.verdict import Outcome
from autotune.records import Event, StageName
from tests.controller.conftest import (
    MICRO_BATCH,
    SEQUENCES,
    Crash,
    crash_after,
    job_of,
    synthetic_verl,
    value_of,
)

GPUS = "trainer.n_gpus_per_node"
COLD = "actor_rollout_ref.model.use_remove_padding"
STAGES = (StageName.SURVIVE, StageName.SPEED)


def sized_job(results: Path, sizes: list[int], *, trials: int = 12, key: str = GPUS, **resources: Any) -> Any:
    """A job whose speed stage varies `key`, on GPUs, from a configuration that fits."""
    job = job_of(results)
    spaces = {
        "survive": {MICRO_BATCH: {"kind": "categorical", "choices": [4, 8]}},
        "speed": {
            key: {"kind": "categorical", "choices": sizes},
            SEQUENCES: {"kind": "categorical", "choices": [16, 32, 64, 128]},
            MICRO_BATCH: {"kind": "categorical", "choices": [4, 8, 16]},
        },
    }
    stages = {
        name: {
            "search_space": {"name": name, "parameters": parameters},
            "steps": 3,
            "trials": trials,
            **({"patience": None, "baseline_every": None, "end_early": False} if name == "speed" else {}),
        }
        for name, parameters in spaces.items()
    }
    overrides = {**job.verl.overrides, MICRO_BATCH: 8}
    return job_of(
        results, verl={"overrides": overrides}, resources={"device": "gpu", **resources}, stages=stages
    )


class Watch:
    """Notes at each launch what is held, and how each trial's size and the store's booking agree."""

    def __init__(self) -> None:
        self.launcher: Any = None
        self.sizes: list[int] = []
        self.most_held = 0

    def __call__(self, request: Any, tree: dict[str, Any]) -> list[Event]:
        assert request.gpus == value_of(tree, GPUS)
        self.sizes.append(request.gpus)
        self.most_held = max(self.most_held, sum(self.launcher.held.values()) + request.gpus)
        return synthetic_verl(request, tree)


def test_trials_of_all_sizes_share_the_devices_and_pay_for_their_own(rig: Any, tmp_path: Path) -> None:
    watch = Watch()
    with rig(watch, limit=3, job=sized_job(tmp_path / "results", [1, 2])) as one:
        watch.launcher = one.launcher
        run_ladder(one.services, one.controller, STAGES)
        trials = one.store.trials(StageName.SPEED)
        attempts = {trial.number: one.store.attempts(trial.id)[0] for trial in trials}
        spent_s = one.store.device_s_by_trial()
    assert watch.most_held == 3  # two sizes side by side, and never more than there is
    assert set(watch.sizes) == {1, 2}
    assert {trial.verdict.outcome for trial in trials} == {Outcome.COMPLETED}
    for trial in trials:
        gpus = trial.candidate.params[GPUS]
        assert attempts[trial.number].devices == gpus
        assert spent_s[trial.id] == pytest.approx(gpus * 6.0, abs=gpus * 0.5)


def test_a_size_that_no_node_has_is_refused_once_and_costs_nothing(rig: Any, tmp_path: Path) -> None:
    with rig(limit=2, job=sized_job(tmp_path / "results", [1, 4])) as one:
        run_ladder(one.services, one.controller, STAGES)
        trials = one.store.trials(StageName.SPEED)
        launched = [value.gpus for value in one.launcher.started]
    refused = [trial for trial in trials if trial.candidate.params[GPUS] == 4]
    assert refused
    assert set(launched) == {1}
    for trial in refused:
        assert trial.verdict.outcome is Outcome.REJECTED
        assert "asks for 4 GPUs; the cluster's largest node has 2" in trial.verdict.failure.cause


def test_a_large_trial_is_not_starved_by_small_ones(rig: Any, tmp_path: Path) -> None:
    """Small trials of other lengths never leave two devices free at once, unless they are kept from it."""
    lengths = iter(range(1, 100))
    started: list[tuple[int, int]] = []

    def uneven(request: Any, tree: dict[str, Any]) -> list[Event]:
        started.append((int(Path(request.folder).name.split("-")[1]), request.gpus))
        events = synthetic_verl(request, tree)
        late_s = next(lengths) % 2 * 5.0
        return [*events[:-1], type(events[-1])(at_s=events[-1].at_s + late_s, exit_code=0, asked=False)]

    with rig(uneven, limit=2, job=sized_job(tmp_path / "results", [1, 2], trials=16)) as one:
        run_ladder(one.services, one.controller, STAGES)
        numbers = [trial.number for trial in one.store.trials(StageName.SPEED)]
    speed = started[-len(numbers) :]
    assert sorted(number for number, _ in speed) == numbers
    for place, (number, gpus) in enumerate(speed):
        earlier = [other for other, _ in speed[:place]]
        passed = sum(other > number for other in earlier)
        assert passed <= 5, f"#{number} of {gpus} GPUs was passed {passed} times"


@pytest.mark.parametrize("writes", [22, 31, 40, 53])
def test_a_crash_while_trials_wait_loses_none_of_them(rig: Any, tmp_path: Path, writes: int) -> None:
    job = sized_job(tmp_path / "results", [1, 2], trials=6)
    with rig(limit=2, job=job) as one:
        crash_after(one.store, writes)
        with pytest.raises(Crash):
            run_ladder(one.services, one.controller, STAGES)
    with rig(limit=2, job=job) as two:
        run_ladder(two.services, two.controller, STAGES)
        trials = two.store.trials(StageName.SPEED)
        ran = Counter(attempt.trial_id for trial in trials for attempt in two.store.attempts(trial.id))
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert all(trial.verdict is not None for trial in trials)
    repeats = Counter(tuple(trial.candidate.params.items()) for trial in trials)
    assert sorted(repeats.values())[:-1] == [1] * (len(repeats) - 1)  # only the survivor is repeated
    assert max(ran.values()) <= 2


@pytest.mark.parametrize(
    ("keys", "asked", "warm", "expected"),
    [
        ([MICRO_BATCH, SEQUENCES], None, True, 1),
        ([MICRO_BATCH, SEQUENCES], 5, True, 1),
        ([MICRO_BATCH, COLD], None, True, 3),
        ([MICRO_BATCH, COLD], 5, True, 5),
        ([MICRO_BATCH, COLD], 1, True, 1),
        (["+" + COLD], None, False, 1),
        ([GPUS], None, True, 3),
        ([], None, True, 1),
    ],
)
def test_a_batch_is_made_only_where_the_space_has_cold_keys(
    keys: list[str], asked: int | None, warm: bool, expected: int
) -> None:
    space = ResolvedSpace(
        name="s",
        parameters=tuple(ResolvedParameter(key=key, kind="categorical", choices=(1, 2)) for key in keys),
        facts={},
    )
    assert batch_of(space, asked, warm_sessions=warm) == expected
    assert smallest_gpus(space, 8) == (1 if GPUS in keys else 8)


def cold_starts(rig: Any, results: Path, batch: int) -> tuple[int, list[Any]]:
    job = sized_job(results, [True, False], key=COLD, batch=batch, trials=12)
    with rig(job=job) as one:
        one.launcher.holds_sessions = True
        run_ladder(one.services, one.controller, STAGES)
        trials = one.store.trials(StageName.SPEED)
        assert all(trial.verdict is not None for trial in trials)
        return one.launcher.cold_starts, [trial.candidate.params for trial in trials]


def test_a_batch_saves_cold_starts_and_leaves_out_no_candidate(rig: Any, tmp_path: Path) -> None:
    one_by_one, plain = cold_starts(rig, tmp_path / "plain", 1)
    in_batches, batched = cold_starts(rig, tmp_path / "batched", 3)
    assert in_batches < one_by_one
    assert len(batched) == len(plain)
    assert {params[COLD] for params in batched} == {True, False}
