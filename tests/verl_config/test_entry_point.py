from __future__ import annotations

import pytest

from autotune.verl_config.compose import config_folder
from autotune.verl_config.entry_point import entry_config, resolved_config

RECIPE = """\
import hydra

@hydra.main(config_path="config", config_name="dapo_trainer", version_base=None)
def main(config):
    raise SystemExit
"""


@pytest.fixture
def recipe(tmp_path):
    folder = tmp_path / "recipe" / "dapo"
    folder.mkdir(parents=True)
    (folder / "main_dapo.py").write_text(RECIPE)
    return folder


def test_verls_own_entry():
    known = entry_config("verl.trainer.main_ppo")
    assert (known.config_path, known.config_name) == ("config", "ppo_trainer")


def test_an_entry_of_ones_own_is_read_not_imported(recipe, tmp_path):
    known = entry_config("recipe.dapo.main_dapo", [tmp_path])
    assert known.config_name == "dapo_trainer"


def test_an_entry_that_is_not_here_is_none():
    assert entry_config("recipe.gone.main") is None


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        (None, None, (None, "ppo_trainer")),
        ("./config", "ppo_megatron_trainer", (None, "ppo_megatron_trainer")),
        (str(config_folder()), "x", (str(config_folder()), "x")),
        ("$PWD/mine", "x", ("$PWD/mine", "x")),
    ],
)
def test_the_primary_configuration_of_main_ppo(path, name, expected):
    assert resolved_config("verl.trainer.main_ppo", path, name) == expected


def test_a_relative_path_is_taken_from_the_entrys_file(recipe, tmp_path):
    found = resolved_config("recipe.dapo.main_dapo", None, None, [tmp_path])
    assert found == (str(recipe / "config"), "dapo_trainer")


def test_an_unknown_entry_has_no_name():
    assert resolved_config("recipe.gone.main", "config", None) == (None, None)
