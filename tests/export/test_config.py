"""The three forms compose to the same configuration; Hydra judges, on the installed verl's files."""

import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from autotune.errors import VerlConfigError
from autotune.export.config import ExportForm, merged_overrides, render_export
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose, config_folder

OWN = {
    "data.train_files": "/data/it's a file.parquet",
    "data.train_batch_size": 16,
    "data.max_prompt_length": 64,
    "actor_rollout_ref.actor.optim.lr": 3e-6,
    "actor_rollout_ref.actor.use_kl_loss": True,
    "actor_rollout_ref.model.path": "Qwen/Qwen2.5-0.5B",
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    "+actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls": "a.b.Extension",
    "trainer.logger": ["console", "file"],
    "trainer.project_name": "1e3",
    "trainer.experiment_name": "a: [b], {c} # $HOME \\ \u00e9",
    "critic.optim.lr_warmup_steps": None,
}
WINNER = {
    "data.train_batch_size": 32,
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.55,
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.model.override_config.attn_implementation": "eager",
}
pytest.importorskip("hydra")


def rendered(form, verl, overrides, facts, name="best"):
    return render_export(
        form, resolved=compose(verl, overrides), verl=verl, overrides=overrides, facts=facts, name=name
    )


def composed(folder, name="best"):
    return compose(VerlSection(config_path=str(folder), config_name=name, overrides={}), {})


@pytest.mark.parametrize("engine", [{}, {"model_engine": "megatron"}], ids=["fsdp", "megatron"])
@pytest.mark.parametrize("form", [ExportForm.FULL, ExportForm.MINIMAL])
def test_an_exported_file_composes_to_what_was_measured(tmp_path, facts, form, engine):
    verl = VerlSection(overrides={**OWN, **engine})
    (tmp_path / "best.yaml").write_text(rendered(form, verl, WINNER, facts))
    assert composed(tmp_path).flat == compose(verl, WINNER).flat


def test_the_shell_form_gives_verl_the_same_words(tmp_path, facts):
    """Bash reads the script, a stand-in for Python's `-m` composes what arrives."""
    verl = VerlSection(overrides=OWN, environment={"NOTE": "two words"})
    script = rendered(ExportForm.SHELL, verl, WINNER, facts)
    (tmp_path / "best.sh").write_text(script)
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\0" "$NOTE" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    words = subprocess.run(
        ["bash", tmp_path / "best.sh", "trainer.nnodes=2"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")[:-1]
    assert words[:5] == ["two words", "-m", "verl.trainer.main_ppo", "--config-name", "ppo_trainer"]
    assert words[-1] == "trainer.nnodes=2"
    assert hydra_flat(words[5:-1]) == compose(verl, WINNER).flat


def hydra_flat(words):
    """Composed by Hydra from command-line words, as verl's entry would."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    from autotune.verl_config.tree import flatten, resolve

    with initialize_config_dir(str(config_folder()), version_base=None):
        return flatten(resolve(hydra_compose("ppo_trainer", overrides=words))[0])


@pytest.mark.parametrize("form", [ExportForm.FULL, ExportForm.MINIMAL])
def test_a_primary_configuration_of_the_users_own(tmp_path, facts, form):
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.yaml").write_text("defaults: [ppo_trainer, _self_]\ndata: {train_batch_size: 8}\n")
    verl = VerlSection(config_path=str(own), config_name="mine", overrides={"data.max_prompt_length": 64})
    (tmp_path / "best.yaml").write_text(rendered(form, verl, {"trainer.nnodes": 2}, facts))
    flat = composed(tmp_path).flat
    assert flat == compose(verl, {"trainer.nnodes": 2}).flat
    assert flat["data.train_batch_size"] == 8


def test_a_search_path_that_hydra_would_not_take(tmp_path, facts):
    (tmp_path / "mine.yaml").write_text(
        "defaults: [ppo_trainer, _self_]\nhydra: {searchpath: ['pkg://verl.trainer.config']}\n"
    )
    verl = VerlSection(config_path=str(tmp_path), config_name="mine", overrides={})
    with pytest.raises(VerlConfigError, match=r"hydra\.searchpath.*export the full form"):
        rendered(ExportForm.MINIMAL, verl, {}, facts)
    assert "--config-name mine" in rendered(ExportForm.SHELL, verl, {}, facts)


def test_the_minimal_file_is_short_and_readable(facts):
    text = rendered(ExportForm.MINIMAL, VerlSection(overrides={"data.train_batch_size": 8}), {}, facts)
    assert yaml.safe_load(text) == {
        "defaults": ["ppo_trainer", "_self_"],
        "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
        "data": {"train_batch_size": 8},
    }


def test_the_winner_replaces_the_users_value_and_a_plus_stays():
    merged = merged_overrides({"+a.b": 1, "c": 2}, {"a.b": 3, "+d": 4})
    assert merged == {"+a.b": 3, "c": 2, "+d": 4}


def test_the_command_in_the_header_finds_the_file(tmp_path, facts):
    """Hydra itself, started as a module in another folder, as verl is."""
    verl = VerlSection(entry="package.entry", overrides={"data.train_batch_size": 8})
    (tmp_path / "my best.yaml").write_text(rendered(ExportForm.FULL, verl, {}, facts, name="my best"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "entry.py").write_text(
        "import hydra\n"
        "@hydra.main(config_path='config', config_name='none', version_base=None)\n"
        "def main(config): print('batch', config.data.train_batch_size)\n"
        "main()\n"
    )
    (command,) = [
        line.lstrip("# ")
        for line in (tmp_path / "my best.yaml").read_text().splitlines()
        if "-m package" in line
    ]
    command = command.replace("python", shlex.quote(sys.executable), 1)
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "batch 8", done.stderr


def test_a_script_asks_for_secrets_and_holds_none(facts):
    verl = VerlSection(overrides=OWN, environment={"NOTE": "two words", "WANDB_API_KEY": "k-1"})
    script = rendered(ExportForm.SHELL, verl, WINNER, replace(facts, environment=verl.environment))
    assert "k-1" not in script
    assert "#   export WANDB_API_KEY=...  (a secret: set it yourself)\n" in script
    start = script[: script.index("python -m")]
    asked = subprocess.run(["bash", "-c", start], capture_output=True, text=True, check=False, env={})
    assert asked.returncode != 0
    assert "WANDB_API_KEY: set it first" in asked.stderr
