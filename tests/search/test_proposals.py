"""The sampler: reproducible, never twice the same, and no climber of the memory wall."""

import math

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from autotune.search.distributions import distribution, to_choice
from autotune.search.moves import is_among
from autotune.search.proposals import propose
from autotune.search.recall import Recall
from tests.search.builders import (
    BUDGET,
    DYNAMIC,
    ENGINE,
    MICRO,
    choice,
    memory_space,
    real,
    space,
    whole,
)


def told(where, params, state=TrialState.COMPLETE, value=None, constraints=None):
    shapes = {p.key: distribution(p) for p in where.active(params)}
    return create_trial(
        state=state,
        value=value,
        params={key: to_choice(params[key]) for key in shapes},
        distributions=shapes,
        constraints=constraints,
    )


def numbered(trials):
    """As a storage returns them."""
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    return study.get_trials()


def history(count, seed=0):
    where = memory_space()
    trials, tried = [], []
    for number in range(count):
        params = propose(numbered(trials), where, tried, seed + number)
        tried.append(params)
        trials.append(told(where, params, value=params[ENGINE]))
    return numbered(trials), tried


@pytest.mark.parametrize("count", [0, 3, 8])
def test_the_same_history_and_seed_give_the_same_proposal(count):
    trials, tried = history(count)
    first = propose(trials, memory_space(), tried, 17)
    assert propose(trials, memory_space(), tried, 17) == first
    assert any(propose(trials, memory_space(), tried, seed) != first for seed in range(18, 22))


def test_proposals_are_points_of_the_space_with_their_conditions():
    _, tried = history(12)
    for params in tried:
        assert memory_space().contains(params)
        assert (MICRO in params) is not params[DYNAMIC]
        assert (BUDGET in params) is params[DYNAMIC]


def test_running_and_waiting_trials_are_no_hindrance():
    trials, tried = history(6)
    where = memory_space()
    running = told(where, tried[0], state=TrialState.RUNNING)
    enqueued = create_trial(state=TrialState.WAITING, system_attrs={"fixed_params": {ENGINE: 0.3}})
    params = propose(numbered([*trials, running, enqueued]), where, tried, 1)
    assert params is not None
    assert where.contains(params)


def test_a_small_space_is_used_up_without_repetition():
    where = space(choice("a", True, False), choice("b", 1, [2, 3]), choice("c", "x", "y", when="a"))
    trials, tried = [], []
    while (params := propose(numbered(trials), where, tried, len(tried))) is not None:
        assert not is_among(params, tried)
        tried.append(params)
        trials.append(told(where, params, value=float(len(tried))))
    assert len(tried) == 6


def test_a_value_that_differs_in_its_last_bit_counts_as_tried():
    where = space(real("share", 0.1, 0.3, step=0.1))
    assert propose([], where, [{"share": 0.1}, {"share": 0.1 + 0.2}], 0) == {"share": pytest.approx(0.2)}
    assert propose([], where, [{"share": 0.1}, {"share": 0.2}, {"share": 0.1 + 0.2}], 0) is None


LANDSCAPE = space(
    whole("micro", 1, 64, log=True),
    whole("sequences", 16, 512, log=True),
    real("share", 0.2, 0.9),
    choice("offload", True, False),
)
TRIALS = 20


def peak_frac(params):
    """Memory rises with everything that makes a step faster, as it does on a device."""
    kept = 0.0 if params["offload"] else 0.15
    return 0.1 + 0.5 * params["share"] + 0.1 * math.log2(params["micro"]) + kept


def tokens_per_s(params):
    return 1000 * params["share"] + 100 * math.log2(params["micro"] * params["sequences"])


def climb(seed, *, graded):
    """Share of the trials that ran out of memory, and the best speed of the others."""
    trials, tried, best, ooms = [], [], 0.0, 0
    for number in range(TRIALS):
        params = propose(numbered(trials), LANDSCAPE, tried, seed * 10_007 + number)
        tried.append(params)
        over = peak_frac(params) / 0.8 - 1.0
        if over <= 0:
            best = max(best, tokens_per_s(params))
            trials.append(told(LANDSCAPE, params, value=tokens_per_s(params), constraints={"memory": over}))
            continue
        ooms += 1
        state = TrialState.PRUNED if graded else TrialState.FAIL
        trials.append(told(LANDSCAPE, params, state=state, constraints={"memory": over} if graded else None))
    return ooms / TRIALS, best


def test_graded_constraints_keep_the_sampler_off_the_memory_wall():
    graded = [climb(seed, graded=True) for seed in range(3)]
    failed = [climb(seed, graded=False) for seed in range(3)]
    oom_share, best = (sum(column) / len(graded) for column in zip(*graded, strict=True))
    assert oom_share < 0.45
    assert oom_share < 0.7 * sum(share for share, _ in failed) / len(failed)
    assert best > 0.8 * best_feasible()


def best_feasible():
    shares = [0.2 + 0.7 * i / 50 for i in range(51)]
    points = [
        {"micro": 2**m, "sequences": 512, "share": share, "offload": True}
        for m in range(7)
        for share in shares
    ]
    return max(tokens_per_s(point) for point in points if peak_frac(point) <= 0.8)


def recalled(trials):
    recall = Recall()
    for trial in trials:
        recall.know(trial)
    return recall.trials()


def test_a_long_history_is_recalled_by_its_best_and_its_latest():
    where = space(real("share", 0.0, 1.0))
    shares = [i / 1000 for i in range(500)]
    trials = [
        told(
            where,
            {"share": share},
            value=share if i != 3 else 9.0,
            constraints={"memory": 1.0 if i == 7 else -1.0},
        )
        for i, share in enumerate(shares)
    ]
    kept = recalled(numbered(trials))
    assert len(kept) == 100
    assert [t.number for t in kept] == sorted(t.number for t in kept)
    assert {3, 499} <= {t.number for t in kept}
    assert 7 not in {t.number for t in kept}
    assert recalled(numbered(trials[:100])) == numbered(trials[:100])


def test_the_last_untried_point_of_a_larger_space_is_found():
    where = space(choice("a", *range(30)), choice("b", *range(30)))
    tried = [{"a": a, "b": b} for a in range(30) for b in range(30) if (a, b) != (17, 4)]
    assert propose([], where, tried, 1) == {"a": 17, "b": 4}
