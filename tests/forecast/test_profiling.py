from __future__ import annotations

import pytest

from autotune.forecast.profiling import composed, filled, import_job, read_launch, surroundings
from autotune.job.loading import load_job

SCRIPT = """\
python3 -m verl.trainer.main_ppo {} \\
    data.train_files=$HOME/gone.parquet \\
    actor_rollout_ref.model.path=$ROOT/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=$GPUS
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT.format(""))
    return file


def test_a_script_becomes_a_job_that_loads(script, tmp_path):
    launch = filled(read_launch(script), {"trainer.n_gpus_per_node": 2})
    made = import_job("mine", launch, script)
    (tmp_path / "mine.yaml").write_text(made.text)
    job = load_job(tmp_path / "mine.yaml")
    assert job.resources.gpus_per_trial == 2
    assert job.verl.overrides["data.train_files"].endswith("/gone.parquet")
    assert "$" not in job.verl.overrides["data.train_files"]
    assert [one.key for one in launch.unresolved] == ["actor_rollout_ref.model.path"]


def test_a_model_is_known_by_the_end_of_its_unresolved_path(script):
    launch = read_launch(script)
    config, _ = composed(launch, script.parent)
    assert surroundings(config, launch).model.layers == 28


def test_verls_default_model_is_no_answer_to_an_unresolved_one(script):
    script.write_text(SCRIPT.format("").replace("/Qwen2.5-7B-Instruct", "$NAME"))
    launch = read_launch(script)
    config, _ = composed(launch, script.parent)
    around = surroundings(config, launch)
    assert around.model is None
    assert "$ROOT$NAME" in around.notes[0]


def test_data_that_are_not_here_are_named(script):
    launch = filled(read_launch(script), {"actor_rollout_ref.model.path": "Qwen/Qwen2-7B"})
    config, _ = composed(launch, script.parent)
    around = surroundings(config, launch)
    assert around.lengths is None
    assert "gone.parquet" in around.notes[-1]


def test_keys_that_verl_lacks_are_told_and_the_rest_is_composed(script):
    script.write_text(SCRIPT.format("actor_rollout_ref.actor.gone_key=3 data.train_batch_size=12"))
    config, notes = composed(read_launch(script), script.parent)
    assert config.flat["data.train_batch_size"] == 12
    assert notes[0].startswith("actor_rollout_ref.actor.gone_key")


def test_an_entry_whose_configuration_is_not_here_is_named(script):
    script.write_text("python3 -m recipe.gone.main_gone actor_rollout_ref.rollout.n=2")
    launch = read_launch(script)
    assert launch.config_name == "ppo_trainer"
    assert "stands in" in launch.unresolved[0].why


def test_a_yaml_is_read_too(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("defaults: [ppo_trainer, _self_]\n")
    assert read_launch(file).config_name == "config"
