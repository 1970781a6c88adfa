"""The load monitor over values shaped like verl's, and over verl's own functions where marked."""

import json
from types import SimpleNamespace

import pytest

from autotune.job.paths import AttemptPaths
from autotune.store.rank_load import read_rank_load
from autotune.verl_plugin.load_monitor import (
    LENGTHS_KEPT,
    LoadMonitor,
    count_flat_groups,
    describe,
    evenly_spaced,
    rank_totals,
)


def tag(prompt, response, **more):
    return {"prompt_len": prompt, "response_len": response, "seq_len": prompt + response, **more}


def batch_of(*tags):
    return SimpleNamespace(tags=list(tags))


def trainer_of(ranks):
    return SimpleNamespace(actor_rollout_wg=SimpleNamespace(_dispatch_info={"actor": list(range(ranks))}))


def balance(trainer, batch, metrics):
    """As verl's: fills up, then reorders so that each rank's share is even."""
    tags = [*batch.tags, *[tag(4, 1, is_padding=True)] * (len(batch.tags) % 2)]
    tags.sort(key=lambda t: t["seq_len"])
    return batch_of(*tags[::2], *tags[1::2])


def lines_of(monitor):
    with open(monitor.path) as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def monitor(tmp_path):
    return LoadMonitor(str(AttemptPaths(tmp_path).rank_load))


def run_step(monitor, number, batch, rewards=None, uids=None, compute=lambda *a, **k: None):
    monitor.around_balance(balance)(trainer_of(2), batch, {})
    if rewards is not None:
        torch = pytest.importorskip("torch")
        data = SimpleNamespace(
            batch={"token_level_rewards": torch.tensor(rewards)}, non_tensor_batch={"uid": uids}
        )
        monitor.around_advantage(lambda data: data)(data)
    metrics = {}
    monitor.around_metrics(compute)(None, batch, metrics, {"step": 2.0}, global_steps=number, epoch=0)
    return metrics


def test_a_steps_line_has_each_ranks_share_before_and_after_balancing(monitor, tmp_path):
    run_step(monitor, 7, batch_of(tag(10, 90), tag(10, 80), tag(10, 10), tag(10, 0)))
    (line,) = lines_of(monitor)
    assert (line["tokens_before"], line["tokens"], line["samples"]) == ([190, 30], [100, 120], [2, 2])
    assert line["lengths"] == [[10, 0], [10, 80], [10, 10], [10, 90]]
    assert (line["step"], line["step_s"]) == (7, 2.0)
    load = read_rank_load(AttemptPaths(tmp_path))
    assert load.imbalance(balanced=False) == pytest.approx(190 / 110)
    assert load.imbalance(balanced=True) == pytest.approx(120 / 110)


def test_samples_that_verl_fills_up_with_are_load_but_no_lengths(monitor):
    run_step(monitor, 1, batch_of(tag(10, 90), tag(10, 80), tag(10, 10)))
    (line,) = lines_of(monitor)
    assert (line["tokens_before"], line["tokens"]) == ([190, 25], [95, 120])
    assert len(line["lengths"]) == 3


def test_two_balanced_batches_of_one_step_add_up_and_the_next_step_starts_empty(monitor):
    batch = batch_of(tag(1, 1), tag(2, 2))
    monitor.around_balance(balance)(trainer_of(2), batch, {})
    run_step(monitor, 1, batch)
    run_step(monitor, 2, batch)
    assert [line["tokens"] for line in lines_of(monitor)] == [[4, 8], [2, 4]]


def test_groups_without_variance_are_counted_and_told_to_verl(monitor):
    rewards = [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.5], [0.0, 0.0]]
    uids = ["a", "a", "b", "b", "pad-1"]
    metrics = run_step(monitor, 1, batch_of(tag(1, 1), tag(1, 1)), rewards, uids)
    assert metrics["autotune/groups_without_variance_frac"] == 0.5
    (line,) = lines_of(monitor)
    assert (line["groups"], line["flat_groups"]) == (2, 1)


def test_a_group_of_one_is_no_group():
    assert count_flat_groups(["a", "b", "b"], [1.0, 0.5, 0.5]) == (1, 1)
    assert count_flat_groups([], []) == (0, 0)


def test_the_wait_for_data_is_timed(monitor):
    assert monitor.around_fetch(lambda trainer: "batch")(None) == "batch"
    metrics = run_step(monitor, 1, batch_of(tag(1, 1), tag(1, 1)))
    assert 0.0 < metrics["autotune/data_wait_s"] < 1.0
    assert 0.0 < metrics["autotune/monitor_s"] < 1.0
    assert "autotune/groups_without_variance_frac" not in metrics


def test_verls_own_error_passes_and_the_monitors_own_do_not(monitor):
    def broken(*args, **kwargs):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        monitor.around_balance(broken)(trainer_of(2), batch_of(), {})
    strange = SimpleNamespace(tags=[{"no": "lengths"}])
    assert monitor.around_balance(lambda trainer, batch: batch)(None, strange) is strange
    unwritable = LoadMonitor("/nowhere/rank_load.jsonl")
    assert run_step(unwritable, 1, batch_of(tag(1, 1), tag(1, 1)))["autotune/data_wait_s"] == 0.0


def test_a_module_without_what_is_watched_stays_as_it_is(monitor):
    other = SimpleNamespace(PPOTrainer=type("PPOTrainer", (), {}))
    monitor.watch_trainer(other)
    monitor.watch_worker(other)
    assert not hasattr(other.PPOTrainer, "_balance_batch")


def test_shares_are_cut_as_verl_cuts_them():
    assert rank_totals([1, 2, 3, 4], 2) == [3, 7]
    assert evenly_spaced(list(range(10)), 4) == [0, 3, 6, 9]
    assert len(evenly_spaced(list(range(10_000)), LENGTHS_KEPT)) <= LENGTHS_KEPT


def test_a_pass_in_figures():
    assert describe([[3, 5], [10, 2]]) == {
        "micro_batches": 2, "samples": 4, "tokens": 20, "largest_tokens": 12, "padded_tokens": 30,
    }  # fmt: skip


@pytest.mark.verl
def test_verls_own_micro_batches_are_described(monitor, tmp_path):
    from tests.verl_plugin.verl_share import share, verl_workers

    workers = verl_workers()
    prepare = monitor.around_micro_batches(workers.prepare_micro_batches)
    lengths = [3, 9, 4, 8, 2, 7]
    fixed, _ = prepare(data=share(workers, lengths, size=2), dp_group=None, same_micro_num_in_dp=True)
    dynamic, _ = prepare(data=share(workers, lengths, budget=16, update=True))
    log_prob, update = lines_of(monitor)
    assert (len(fixed), len(dynamic)) == (log_prob["micro_batches"], update["micro_batches"]) == (3, 3)
    assert (log_prob["pass"], update["pass"]) == ("log_prob", "update")
    assert log_prob["tokens"] == update["tokens"] == sum(lengths)
    assert log_prob["padded_tokens"] == 2 * (9 + 8 + 7)
    assert update["largest_tokens"] <= 16


@pytest.mark.verl
@pytest.mark.timeout(300)
def test_verls_own_trainer_is_watched(monitor, monkeypatch):
    """Its real balancing and advantages, on a trainer with nothing but what they read."""
    import numpy as np
    import torch
    from transfer_queue import KVBatchMeta
    from verl.protocol import DataProto
    from verl.trainer.ppo.v1 import trainer_base

    for name in ("_next_train_batch", "_balance_batch", "_compute_metrics"):
        monkeypatch.setattr(trainer_base.PPOTrainer, name, getattr(trainer_base.PPOTrainer, name))
    name = "compute_advantage_for_multi_trajectories"
    monkeypatch.setattr(trainer_base, name, getattr(trainer_base, name))
    monitor.watch_trainer(trainer_base)

    tags = [tag(10, response) for response in (90, 80, 10, 0)]
    batch = KVBatchMeta(keys=["a_0_0", "a_1_0", "b_0_0", "b_1_0"], tags=tags, partition_id="train")
    trainer = trainer_of(2)
    trainer._get_required_batch_multiple = lambda ranks: ranks
    trainer.tokenizer = SimpleNamespace(eos_token_id=0)
    metrics = {}
    balanced = trainer_base.PPOTrainer._balance_batch(trainer, batch, metrics=metrics)
    assert monitor.step.before == [190, 30]
    assert sorted(monitor.step.tokens) == sorted(
        [metrics["global_seqlen/balanced_min"], metrics["global_seqlen/balanced_max"]]
    )

    mask = torch.ones(4, 3)
    rewards = torch.zeros(4, 3)
    rewards[balanced.keys.index("a_0_0"), 2] = 1.0
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array([key[0] for key in balanced.keys], dtype=object)},
    )
    trainer_base.compute_advantage_for_multi_trajectories(
        data, batch_keys=balanced.keys, adv_estimator="grpo", num_repeat=2
    )
    assert (monitor.step.groups, monitor.step.flat_groups) == (2, 1)
