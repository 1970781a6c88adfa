"""Importances are read from the stage's own study, or it is said why there are none."""

import optuna
import pytest
from optuna.distributions import FloatDistribution

from autotune.records import StageName
from autotune.search.importances import LEAST_TRIALS, importances
from autotune.search.study import open_storage, study_name

LR, COEF = "actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.actor.kl_loss_coef"
SHAPES = {LR: FloatDistribution(0.0, 1.0), COEF: FloatDistribution(0.0, 1.0)}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/with space.db"


def fill(url, count, value):
    study = optuna.create_study(
        storage=open_storage(url), study_name=study_name("job", StageName.QUALITY), direction="maximize"
    )
    for index in range(count):
        params = {LR: index / count, COEF: (index * 7 % count) / count}
        study.add_trial(optuna.create_trial(params=params, distributions=SHAPES, value=value(params)))


def test_what_the_objective_depends_on_comes_first(url):
    fill(url, 20, lambda params: params[LR] + 0.01 * params[COEF])
    found = importances(url, "job", StageName.QUALITY)
    assert list(found.shares) == [LR, COEF]
    assert found.shares[LR] > 0.7
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert (found.trials, found.missing_reason) == (20, "")


def test_too_few_trials_say_so(url):
    fill(url, LEAST_TRIALS - 1, lambda params: params[LR])
    found = importances(url, "job", StageName.QUALITY)
    assert (found.shares, found.trials) == ({}, LEAST_TRIALS - 1)
    assert found.missing_reason == "9 completed, 10 wanted"


def test_equal_objectives_say_nothing(url):
    fill(url, 12, lambda params: 1.0)
    assert "same objective" in importances(url, "job", StageName.QUALITY).missing_reason


def test_another_stage_or_no_table_yet(url, tmp_path):
    fill(url, 12, lambda params: params[LR])
    assert importances(url, "job", StageName.SPEED).trials == 0
    (tmp_path / "empty.db").touch()
    assert importances(f"sqlite:///{tmp_path}/empty.db", "job", StageName.SPEED).trials == 0
