from __future__ import annotations

import pytest

from autotune.verl_config.launch_script.command_line import arguments, invocation, is_stray
from autotune.verl_config.launch_script.shell import Command
from autotune.verl_config.launch_script.text import known, unknown


def command(*words):
    return Command(1, tuple(known(word) for word in words), {})


@pytest.mark.parametrize(
    ("line", "entry", "count"),
    [
        ("python3 -m verl.trainer.main_ppo a.b=1", "verl.trainer.main_ppo", 1),
        ("python -u -m recipe.dapo.main_dapo a.b=1 c=2", "recipe.dapo.main_dapo", 2),
        ("ray job submit --address x --runtime-env=e.yaml -- python3 -m verl.trainer.main_ppo a=1", None, 1),
        ("nohup /opt/py/bin/python3.11 -m verl.trainer.main_ppo", "verl.trainer.main_ppo", 0),
        ("srun --nodes 1 python verl/trainer/main_ppo.py a=1", "verl/trainer/main_ppo.py", 1),
        ("nsys profile -o x python3 -m verl.trainer.main_ppo a=1", "verl.trainer.main_ppo", 1),
        ("/isaac/python.sh -m verl.experimental.vla.main_ppo a=1", "verl.experimental.vla.main_ppo", 1),
    ],
)
def test_the_program_behind_any_launcher(line, entry, count):
    found = invocation(command(*line.split()))
    assert found.entry == (entry or "verl.trainer.main_ppo")
    assert len(found.arguments) == count


@pytest.mark.parametrize("line", ["ls -m verl", "python3 -c pass", "pip install -e .", "echo python3"])
def test_other_commands_are_none(line):
    assert invocation(command(*line.split())) is None


@pytest.mark.parametrize(
    ("line", "training"),
    [
        ("python -m verl.trainer.main_ppo", True),
        ("python -m verl.trainer.main_generation trainer.nnodes=1", False),
        ("python -m my.own.thing actor_rollout_ref.rollout.n=4", True),
        ("python -m verl.model_merger merge --backend fsdp", False),
        ("torchrun -m verl.trainer.sft_trainer trainer.nnodes=1", False),
        ("python examples/data_preprocess/gsm8k.py --local_dir x", False),
    ],
)
def test_what_is_a_training(line, training):
    assert invocation(command(*line.split())).is_training is training


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("a.b=1e-6", "a.b", 1e-6),
        ("a.b=True", "a.b", True),
        ("a.b=null", "a.b", None),
        ("a.b=", "a.b", ""),
        ("+a.b=[x,'y z',3]", "+a.b", ["x", "y z", 3]),
        ("++a.b={c:1,d:{e:f}}", "+a.b", {"c": 1, "d": {"e": "f"}}),
        ('a.b=["console","wandb"]', "a.b", ["console", "wandb"]),
        ("a.b=$HOME/data/x.parquet", "a.b", "$HOME/data/x.parquet"),
        ("a.b='1'", "a.b", "1"),
        ("actor@x.y=z", "actor@x.y", "z"),
        ("a.b=${oc.env:X}", "a.b", "${oc.env:X}"),
    ],
)
def test_values_are_what_hydras_grammar_makes_of_them(word, key, value):
    assert arguments([known(word)]).overrides == {key: value}


def test_hydras_own_options():
    found = arguments([known(word) for word in ("--config-path=./config", "--config-name", "x.yaml", "a=1")])
    assert (found.config_path, found.config_name, found.overrides) == ("./config", "x.yaml", {"a": 1})


def test_the_last_value_counts():
    assert arguments([known("a.b=1"), known("+a.b=2"), known("a.b=3")]).overrides == {"a.b": 3}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("~a.b", "takes a key away"),
        ("a.b=1,2", "sweeps"),
        ("--multirun", "is no override"),
        ("a.b=<path>", "Hydra does not take it"),
        ("hello", "Hydra does not take it"),
    ],
)
def test_what_cannot_be_taken_over_is_named(word, why):
    found = arguments([known(word)])
    assert found.overrides == {}
    assert found.left[0][1] == word
    assert why in found.left[0][2]


def test_an_unknown_value_keeps_its_key_and_text():
    found = arguments([(*known("+a.b=run-"), *unknown("$(date)", "printed"))])
    assert found.left == [("+a.b", "+a.b=run-$(date)", "printed")]


@pytest.mark.parametrize(
    ("line", "stray"), [("trainer.nnodes=1 a=2", True), ("+x.y=1", True), ("ls a.b=1", False)]
)
def test_overrides_without_a_command(line, stray):
    assert is_stray(command(*line.split())) is stray
