"""The configuration in a log: verl's own print, however it is cut, and overrides in commands."""

import pprint

import pytest

from autotune.judge.console_line import parse
from autotune.judge.printed_config import PrintedConfig
from tests.judge.recorded import console_lines

TREE = {
    "actor_rollout_ref": {
        "actor": {"optim": {"lr": 1e-6, "betas": [0.9, 0.999]}, "ppo_micro_batch_size_per_gpu": 40, "x": {}},
        "model": {"path": "Qwen/Qwen2-7B", "override_config": {}, "lora_rank": 0},
        "rollout": {"gpu_memory_utilization": 0.6, "max_model_len": None, "name": "vllm", "n": 5},
    },
    "data": {"train_files": ["/a/train.parquet", "/b/train.parquet"], "max_prompt_length": 512},
    "trainer": {"logger": ["console"], "use_v1": True},
}


def values(lines):
    config = PrintedConfig()
    for line in lines:
        config.see(parse(line))
    return config.values


def printed(source=""):
    return [source + line for line in pprint.pformat(TREE).splitlines()]


@pytest.mark.parametrize("source", ["", "\x1b[36m(TaskRunner pid=7)\x1b[0m "])
def test_verls_print_gives_every_simple_value(source):
    found = values(printed(source))
    assert found["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == 40
    assert found["actor_rollout_ref.actor.optim.lr"] == 1e-6
    assert found["actor_rollout_ref.rollout.max_model_len"] is None
    assert found["actor_rollout_ref.rollout.n"] == 5
    assert found["trainer.use_v1"] is True
    assert found["data.max_prompt_length"] == 512


def test_other_writers_and_lost_lines_cost_only_themselves():
    lines = printed("(TaskRunner pid=7) ")
    mixed = []
    for line in lines:
        mixed += [line, "(WorkerDict pid=9) {'other': {'data': 1}}", "(TaskRunner pid=7) a warning"]
    assert values(mixed) == values(lines)
    without = [line for line in lines if "'n': 5" not in line]
    assert values(without).items() <= values(lines).items()


def test_a_print_that_is_cut_off_gives_what_is_whole():
    text = "\n".join(printed())
    for end in range(0, len(text), 37):
        assert values(text[:end].splitlines()[:-1]).items() <= values(printed()).items()


def test_a_recorded_run():
    found = values(console_lines("oom_log_prob_cpu"))
    assert found["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == 64
    assert found["actor_rollout_ref.actor.entropy_from_logits_with_chunking"] is False


@pytest.mark.parametrize(
    "line",
    [
        "+ python3 -m verl.trainer.main_ppo data.train_batch_size=64 +data.x.y=null"
        " trainer.val_before_train=False",
        "Error executing job with overrides: ['data.train_batch_size=64', '+data.x.y=null',"
        " 'trainer.val_before_train=False']",
    ],
)
def test_overrides_of_a_command_or_of_hydras_error(line):
    assert values([line]) == {
        "data.train_batch_size": 64,
        "data.x.y": None,
        "trainer.val_before_train": False,
    }
