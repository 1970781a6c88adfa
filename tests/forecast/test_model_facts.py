from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import autotune.forecast.model_facts as module
from autotune.forecast.model_facts import facts_from_config, model_facts

ENTRIES = yaml.safe_load(Path(module.__file__).with_name("architectures.yaml").read_text())["models"]
PUBLISHED = [entry for entry in ENTRIES if "published" in entry]


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["names"][0])
def test_parameters_are_the_published_ones(entry):
    assert facts_from_config(entry, "x").parameters() == entry["published"]


@pytest.mark.parametrize(
    ("name", "architecture", "layers"),
    [
        ("Qwen/Qwen2-7B-Instruct", "qwen2", 28),
        ("$HOME/models/Qwen2.5-3B-Instruct", "qwen2", 36),
        ("/data/models/Qwen/Qwen1.5-MoE-A2.7B-Chat", "qwen2_moe", 24),
        ("qwen/qwen3-30b-a3b-instruct-2507", "qwen3_moe", 48),
        ("google/gemma-2-2b-it", "gemma2", 26),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", 32),
        ("deepseek-ai/deepseek-llm-7b-chat", "llama", 30),
        ("$HOME/models/gpt-oss-20b-bf16", "gpt_oss", 24),
    ],
)
def test_a_name_is_known_by_its_last_part(name, architecture, layers):
    facts = model_facts(name)
    assert (facts.architecture, facts.layers, facts.name) == (architecture, layers, name)


@pytest.mark.parametrize("name", ["", "my/own-model", "Qwen/Qwen2-9B", "Qwen3-8B-my-finetune"])
def test_other_names_are_unknown(name):
    assert model_facts(name) is None


def test_similar_names_with_other_vocabularies_differ():
    assert model_facts("mistralai/Mistral-7B-v0.1").vocab == 32000
    assert model_facts("mistralai/Mistral-7B-v0.3").vocab == 32768


def test_a_folder_comes_before_its_name(tmp_path):
    folder = tmp_path / "Qwen2-7B"
    folder.mkdir()
    config = {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2}
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 16, "vocab_size": 32}))
    assert model_facts(str(folder)).layers == 2
    assert model_facts(str(folder / "config.json")).kv_heads == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "mamba"}'])
def test_a_config_without_the_sizes_is_unknown(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert model_facts(str(tmp_path)) is None


def test_the_language_model_of_a_multi_modal_one():
    text = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    config = {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": True,
        "text_config": {**text, "vocab_size": 32},
    }
    facts = facts_from_config(config, "x")
    assert (facts.architecture, facts.tie_embeddings, facts.head_norms) == ("qwen3_vl", True, True)


def test_a_token_meets_its_own_experts_only():
    facts = model_facts("Qwen/Qwen3-30B-A3B")
    assert facts.active_parameters() == pytest.approx(3.35e9, rel=0.01)
    assert model_facts("Qwen/Qwen3-8B").active_parameters() == model_facts("Qwen/Qwen3-8B").parameters()


def test_names_are_listed_once():
    names = [name.lower() for entry in ENTRIES for name in entry["names"]]
    assert len(names) == len(set(names))
