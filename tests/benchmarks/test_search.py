"""The search benchmark's books: who pays what, what counts as found, and that nothing made up is ever shown."""

import json
import random
from dataclasses import replace

import pytest

from benchmarks.landscape.recording import Start, read
from benchmarks.search import ours, searches
from benchmarks.search.__main__ import main
from benchmarks.search.drive import Driver
from benchmarks.search.track import LaunchCost, Track, score
from tests.benchmarks.synthetic import DYNAMIC, SEQS, TOKENS, write


@pytest.fixture
def landscape(tmp_path):
    return read(write(tmp_path))["synthetic"]


def tracked(landscape, seed=0, warm=False):
    return Track(landscape, random.Random(seed), LaunchCost(landscape, warm))


def never(track):
    return False


ENGINE = "actor_rollout_ref.rollout.max_num_seqs"


@pytest.fixture
def in_sessions(tmp_path):
    """Seven runs as a recording has them: their engine, their cold key, number in the session, start-up."""
    runs = [
        (4, "a", 0, 100.0),
        (4, "a", 1, 5.0),
        (16, "a", 2, 40.0),
        (16, "b", 0, 110.0),
        (16, "b", 1, 3.0),
        (64, "b", 2, 50.0),
        (64, "b", 3, 4.0),
    ]
    line = {"job": "j", "outcome": "completed", "step_s": [1.0, 1.0], "tokens": [9.0, 9.0]}
    rows = [
        {**line, "params": {ENGINE: seqs}, "cold_key": key, "session_number": number, "start_s": start_s}
        for seqs, key, number, start_s in runs
    ]
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(path)["j"]


def test_start_up_is_the_median_of_what_came_before_it(in_sessions):
    assert [in_sessions.start_s(start) for start in Start] == [105.0, 45.0, 4.0]


def test_a_cold_start_is_paid_by_every_trial(in_sessions):
    cost = LaunchCost(in_sessions)
    paid_s = [cost.start_s(c, run) for c in in_sessions.configurations for run in c.runs]
    assert paid_s == [105.0] * 7


def test_a_session_is_paid_once_for_its_key_an_engine_when_it_changes_and_both_after_a_failure(in_sessions):
    cost = LaunchCost(in_sessions, warm=True)
    four, sixteen, _ = in_sessions.configurations
    a, b = four.runs[0], sixteen.runs[1]
    order = [(four, a), (four, a), (sixteen, a), (sixteen, b), (sixteen, replace(b, outcome="failed"))]
    order += [(sixteen, b), (sixteen, b)]
    assert [cost.start_s(*one) for one in order] == [105.0, 4.0, 45.0, 105.0, 4.0, 105.0, 4.0]


def test_random_search_finds_the_best_by_using_everything_up(landscape):
    track = tracked(landscape)
    searches.random_search(Driver(track, never), landscape, seed=1)
    assert track.trials == 24
    assert track.exact == 24
    assert track.reached_s < track.spent_s
    # 24 starts of 60 s, and the steps of the 21 that ran.
    assert track.spent_s == pytest.approx(24 * 60 + 21 * 6 * 1000 / 210, rel=0.15)


def test_a_trial_that_is_stopped_costs_its_steps_so_far(landscape):
    driver = Driver(tracked(landscape), never)
    whole = driver.run(landscape.start.params)
    whole_s = driver.track.spent_s
    stopped = driver.run(landscape.start.params, lambda step, speed: step < 3)
    assert (whole.is_complete, stopped.is_complete, stopped.failed) == (True, False, False)
    assert driver.track.spent_s - whole_s == pytest.approx(60 + 3 * (whole_s - 60) / 6, rel=0.1)


def test_a_failure_is_no_guess(landscape):
    driver = Driver(tracked(landscape), never)
    told = driver.run({DYNAMIC: False, "actor.micro": 16, SEQS: 64})
    assert told.failed
    assert driver.track.found == []


def test_the_guess_over_time_starts_from_the_jobs_own(landscape):
    track = tracked(landscape)
    driver = Driver(track, never)
    driver.run({DYNAMIC: True, TOKENS: 1024, SEQS: 256})
    assert track.speed_at(1.0) == landscape.start.tokens_per_s
    assert track.speed_at(1e6) == landscape.best
    assert track.reached_s == track.spent_s


def test_the_score_is_one_for_the_best_at_once_and_zero_for_random(landscape):
    baseline = [tracked(landscape, seed) for seed in range(3)]
    for seed, track in enumerate(baseline):
        searches.random_search(Driver(track, never), landscape, seed)
    at_once = tracked(landscape)
    at_once.found = [(0.0, landscape.best)]
    assert score([at_once], baseline, 1000.0) == pytest.approx(1.0)
    assert score(baseline, baseline, 1000.0) == 0.0


@pytest.mark.parametrize("search", [searches.optuna_tpe, searches.sequential_doubling])
def test_peers_come_close(landscape, search):
    track = tracked(landscape)
    search(Driver(track, lambda t: t.reached_s < float("inf") or t.trials >= 100), landscape, 3)
    assert track.reached_s < float("inf")


@pytest.mark.ray
@pytest.mark.parametrize("name", ["asha", "hyperband"])
def test_ray_tunes_own_schedulers_stop_what_lies_behind(landscape, name):
    from benchmarks.search import ray_tune

    track = tracked(landscape)
    getattr(ray_tune, name)(Driver(track, lambda t: t.trials >= 30), landscape, 1)
    assert track.reached_s < float("inf")
    # Whole trials take 60 s and six steps of 3 to 8 s: some were cut short.
    whole = tracked(landscape)
    searches.random_search(Driver(whole, never), landscape, 1)
    assert track.spent_s / track.trials < whole.spent_s / whole.trials


@pytest.mark.parametrize("warm", [False, True])
def test_ours_comes_close_through_the_products_own_controller(landscape, warm):
    track = tracked(landscape, warm=warm)
    ours.climb(track, lambda t: t.reached_s < float("inf"), seed=0, most_trials=40)
    assert track.reached_s < float("inf")
    assert track.trials <= 40


def test_a_synthetic_landscape_is_refused(tmp_path, capsys):
    assert main([str(write(tmp_path))]) == 2
    assert "synthetic" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing.jsonl")]) == 2
