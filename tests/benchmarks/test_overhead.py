"""The overhead benchmark measures what it says: every trial told, every row stored."""

from benchmarks.overhead import ours, peers


def test_ours_climbs_through_the_whole_controller(tmp_path):
    found = ours.measure(12, 3, tmp_path)
    assert (found["trials"], found["rows"]) == (12, 36)
    assert found["ms_per_trial"] > 0.0
    assert found["database_mb"] > 0.0


def test_optuna_does_the_same_number_of_trials_and_rows(tmp_path):
    found = peers.measure_optuna(12, 3, tmp_path, limit_s=60.0)
    assert (found["trials"], found["rows"]) == (12, 36)


def test_a_peer_that_takes_too_long_is_cut_off(tmp_path):
    assert peers.measure_optuna(10_000, 3, tmp_path, limit_s=0.2)["trials"] < 1000
