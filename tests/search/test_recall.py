"""The trial-by-trial recall is what a look at the whole study would choose."""

import random

import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from autotune.search.recall import RECALLED, RECALLED_BEST, Recall

SHAPE = {"x": FloatDistribution(0.0, 1.0)}


def trial(number, state, value=None, constraint=-1.0):
    made = create_trial(
        state=state, value=value, params={"x": 0.5}, distributions=SHAPE, constraints={"memory": constraint}
    )
    made.number = number
    return made


def chosen(study):
    """The definition: the latest ones, and before them all or the best that meet their constraints."""
    trials = [study[number] for number in sorted(study)]
    if len(trials) <= RECALLED:
        return trials
    older, latest = trials[: -RECALLED + RECALLED_BEST], trials[-RECALLED + RECALLED_BEST :]
    fit = [t for t in older if t.state == TrialState.COMPLETE and t.constraints["memory"] <= 0.0]
    best = sorted(fit, key=lambda t: t.value, reverse=True)[:RECALLED_BEST]
    return [*sorted(best, key=lambda t: t.number), *latest]


@pytest.mark.parametrize("slots", [1, 4, 90])
def test_asked_and_told_in_any_order_it_is_the_best_and_the_latest(slots):
    chance, recall, study, running = random.Random(slots), Recall(), {}, []
    for number in range(250):
        study[number] = trial(number, TrialState.RUNNING)
        recall.know(study[number])
        running.append(number)
        while len(running) >= slots:
            ended = running.pop(chance.randrange(len(running)))
            state = chance.choice([TrialState.COMPLETE, TrialState.COMPLETE, TrialState.PRUNED])
            study[ended] = trial(ended, state, chance.randrange(40) / 8.0, chance.choice([-0.5, -0.5, 0.5]))
            recall.know(study[ended])
        if number % 10 == 0 or 95 < number < 110:
            assert [id(t) for t in recall.trials()] == [id(t) for t in chosen(study)]
