"""Optuna's tables and ours live in one file, written in turns by one process."""

import optuna
import pytest

from autotune.records import Candidate, StageName
from autotune.store.snapshot import snapshot
from autotune.store.store import Store

JOB = {"job_name": "tiny", "job_hash": "0123456789abcdef", "version": "0.1.0"}


@pytest.mark.parametrize("optuna_first", [True, False])
def test_both_write_in_turns(url, clock, tmp_path, optuna_first):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if optuna_first:
        storage = optuna.storages.RDBStorage(url)
        store = Store.open(url, **JOB)
    else:
        store = Store.open(url, **JOB)
        storage = optuna.storages.RDBStorage(url)
    study = optuna.create_study(study_name="survive", storage=storage)
    for number in range(3):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        trial_id = store.add_trial(
            StageName.SURVIVE,
            trial.number,
            Candidate(params=trial.params, origin="sampler"),
            {},
            clock.utc_now(),
        )
        study.tell(trial, 0.5)
        assert trial_id == number + 1
    store.close()

    snapshot(url, tmp_path / "copy.db")
    copied = optuna.load_study(study_name="survive", storage=f"sqlite:///{tmp_path}/copy.db")
    with Store.read(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert [t.candidate.params for t in copy.trials()] == [t.params for t in copied.trials]
