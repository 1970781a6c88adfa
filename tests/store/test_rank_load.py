"""The load of an attempt, read back from its folder."""

import json

import pytest

from autotune.job.paths import AttemptPaths
from autotune.store.rank_load import Bin, RankPass, Spread, read_rank_load


def step(number, tokens=(100, 120), before=(200, 20), **more):
    return {
        "step": number, "step_s": 2.0, "tokens_before": before, "tokens": tokens, "samples": [2, 2],
        "lengths": [[10, 20], [11, 21]], "groups": 2, "flat_groups": 1, "data_wait_s": 0.1,
        "cost_s": 0.004, **more,
    }  # fmt: skip


def one_pass(rank, process=None, work="update", **more):
    return {
        "pass": work, "rank": rank, "process": rank if process is None else process, "micro_batches": 2,
        "samples": 4, "tokens": 60, "largest_tokens": 40, "padded_tokens": 80, "cost_s": 0.001, **more,
    }  # fmt: skip


@pytest.fixture
def load(tmp_path):
    def read(*lines, tail=""):
        paths = AttemptPaths(tmp_path)
        paths.rank_load.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
        return read_rank_load(paths)

    return read


def test_an_attempt_without_a_monitor_has_no_load(tmp_path, load):
    assert read_rank_load(AttemptPaths(tmp_path)) is None
    assert load(one_pass(0)) is None


def test_passes_belong_to_the_step_that_ends_after_them(load):
    found = load(one_pass(0, micro_batches=3), one_pass(1), step(1), one_pass(1), one_pass(0), step(2))
    assert [one.step for one in found.steps] == [1, 2]
    assert [one.micro_batches for one in found.steps] == [(3, 2), (2, 2)]
    assert found.steps[1].passes[0] == RankPass(
        rank=1, work="update", micro_batches=2, samples=4, tokens=60, largest_tokens=40, padded_tokens=80
    )


def test_several_updates_add_up_and_other_passes_do_not(load):
    found = load(one_pass(0), one_pass(0), one_pass(0, work="log_prob", micro_batches=9), step(1))
    assert found.steps[0].micro_batches == (4,)
    assert load(step(1)).steps[0].micro_batches == ()


def test_processes_that_share_a_rank_count_once(load):
    found = load(one_pass(0, process=0), one_pass(0, process=1), one_pass(1, process=2), step(1))
    assert [one.rank for one in found.steps[0].passes] == [0, 1]


def test_tokens_per_rank_over_all_steps(load):
    found = load(step(1, (100, 120)), step(2, (140, 200)))
    assert found.spread() == Spread(mean=140.0, smallest=100, largest=200, count=4)
    assert found.histogram(bins=2) == (Bin(100.0, 150.0, 3), Bin(150.0, 200.0, 1))
    assert sum(one.count for one in found.histogram(bins=7)) == 4
    assert load(step(1, (5, 5))).histogram(bins=2) == (Bin(5.0, 6.0, 2), Bin(6.0, 7.0, 0))


def test_the_balance_before_and_after(load):
    found = load(step(1), step(2, (110, 110), (110, 110)))
    assert found.imbalance(balanced=False) == pytest.approx((200 / 110 + 1.0) / 2)
    assert found.imbalance(balanced=True) == pytest.approx((120 / 110 + 1.0) / 2)


def test_a_step_that_could_not_be_balanced_is_no_figure(load):
    found = load(step(1, (), ()))
    assert (found.spread(), found.histogram(), found.imbalance(balanced=True)) == (None, (), None)


def test_padding_by_kind_of_pass(load):
    found = load(one_pass(0), one_pass(0, work="log_prob", padded_tokens=60), step(1))
    assert found.padding_frac() == pytest.approx(0.25)
    assert found.padding_frac("log_prob") == 0.0
    assert load(step(1)).padding_frac() is None


def test_lengths_are_thinned(load):
    found = load(*(step(number) for number in range(1, 101)))
    assert found.lengths(limit=1000)[:2] == ((10, 20), (11, 21))
    assert len(found.lengths(limit=50)) <= 50


def test_the_monitors_cost_is_the_slowest_workers_and_the_trainers_own(load):
    found = load(one_pass(0), one_pass(0), one_pass(1, cost_s=0.005), step(1))
    assert found.steps[0].cost_s == pytest.approx(0.009)
    assert found.cost_frac() == pytest.approx(0.0045)
    assert load(step(1, step_s=None)).cost_frac() is None


def test_half_a_line_at_the_end_is_left_out(load):
    found = load(step(1), tail='{"step": 2, "tok')
    assert [one.step for one in found.steps] == [1]
