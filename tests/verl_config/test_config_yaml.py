from __future__ import annotations

import pytest

from autotune.errors import InputFileError
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose
from autotune.verl_config.config_yaml import read_config_yaml

CHANGES = {
    "data.train_batch_size": 96,
    "actor_rollout_ref.actor.optim.lr": 3e-7,
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.name": "vllm",
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    "trainer.logger": ["console"],
}


def test_a_whole_configuration_becomes_what_differs(tmp_path):
    file = tmp_path / "whole.yaml"
    config = compose(VerlSection(overrides=CHANGES), {})
    file.write_text(config.yaml())
    launch = read_config_yaml(file)
    assert launch.config_name == "ppo_trainer"
    assert launch.unresolved == ()
    read = {key.lstrip("+"): value for key, value in launch.overrides.items()}
    assert read == {key.lstrip("+"): value for key, value in CHANGES.items()}
    assert compose(VerlSection(overrides=launch.overrides), {}).flat == config.flat


def test_one_with_defaults_stays_what_it_is(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("defaults: [ppo_trainer, _self_]\ndata: {train_batch_size: 4}\n")
    launch = read_config_yaml(file)
    assert (launch.config_path, launch.config_name, launch.overrides) == (str(tmp_path), "mine", {})


def test_megatron_has_its_own_primary_configuration(tmp_path):
    file = tmp_path / "whole.yaml"
    file.write_text("actor_rollout_ref: {actor: {strategy: megatron, ppo_mini_batch_size: 12}}\n")
    launch = read_config_yaml(file)
    assert launch.config_name == "ppo_megatron_trainer"
    assert launch.overrides == {"actor_rollout_ref.actor.ppo_mini_batch_size": 12}


def test_a_key_that_verl_lacks_is_named(tmp_path):
    file = tmp_path / "old.yaml"
    file.write_text("data: {train_batch_size: 4}\ntrainer: {gone_key: 3}\n")
    launch = read_config_yaml(file)
    assert launch.overrides == {"data.train_batch_size": 4}
    assert [one.key for one in launch.unresolved] == ["trainer.gone_key"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("verl: {}\nstages: {}\n", "a job file"),
        ("a: 1\n", "the sections a"),
        ("- 1\n", "a list"),
        ("a: [\n", "no YAML"),
    ],
)
def test_what_is_no_verl_configuration_says_so(tmp_path, text, found):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(InputFileError, match=found):
        read_config_yaml(file)


def test_a_missing_file_is_a_fault(tmp_path):
    with pytest.raises(InputFileError, match="correct the path"):
        read_config_yaml(tmp_path / "gone.yaml")
