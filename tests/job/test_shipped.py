from __future__ import annotations

from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from autotune.job.facts import job_facts
from autotune.job.loading import load_job, load_space
from autotune.job.shipped import shipped, shipped_names
from autotune.job.space_resolution import resolve_space
from autotune.verl_config.compose import compose
from autotune.verl_config.constraints import violations

ROOT = Path(__file__).parents[2]
SPACES = (
    "quality_grpo",
    "quality_ppo",
    "quality_tiny_cpu",
    "speed_fsdp",
    "speed_tiny_cpu",
    "survive_fsdp",
    "survive_tiny_cpu",
)
LEARNING = (
    "algorithm.*", "data.*", "*.optim.*", "*kl_*", "*clip_ratio*", "*.cliprange_value", "*.entropy_coeff",
    "*.loss_*", "*.ppo_mini_batch_size", "*.ppo_epochs", "*.rollout.n", "*.temperature", "*.model.path",
    "*lora*",
)  # fmt: skip
"""Patterns of verl's keys that change what is learned, not how fast."""


def is_learning_key(key):
    return any(fnmatchcase(key, pattern) for pattern in LEARNING)


def all_keys(space):
    return [*space.parameters, *(key for parameter in space.parameters.values() for key in parameter.also)]


@pytest.mark.parametrize("name", shipped_names("jobs"))
def test_every_shipped_job_loads(name):
    assert load_job(shipped("jobs", name)).name == name


@pytest.mark.parametrize("name", shipped_names("search_spaces"))
def test_every_shipped_space_loads_and_says_why(name):
    space = load_space(shipped("search_spaces", name))
    assert space.name == name
    assert space.description
    assert all(parameter.why for parameter in space.parameters.values())


@pytest.mark.skipif(find_spec("verl") is None, reason="composes with the installed verl")
@pytest.mark.parametrize("name", shipped_names("jobs"))
def test_verl_takes_every_shipped_job_and_its_configuration_is_a_point_of_each_space(name):
    job = load_job(shipped("jobs", name))
    flat = compose(job.verl, {}).flat
    gpus = job.resources.gpus_per_trial
    assert violations(flat, gpus) == []
    for stage in job.stage_names():
        space = resolve_space(job.stage(stage).search_space, job_facts(flat, gpus), flat)
        params = space.user_params()
        assert space.contains(params)
        changed = {
            key: value for key, value in space.overrides(params).items() if flat.get(key.lstrip("+")) != value
        }
        assert changed == {key: 32768 for key in changed if key == "+critic.ppo_infer_max_token_len_per_gpu"}


def test_the_shipped_files_are_those_of_the_repository():
    assert set(SPACES) <= set(shipped_names("search_spaces"))
    for kind in ("jobs", "search_spaces"):
        assert list(shipped_names(kind)) == sorted(path.stem for path in (ROOT / kind).glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name in SPACES if name.startswith("speed")])
def test_speed_never_searches_what_changes_learning(name):
    space = load_space(shipped("search_spaces", name))
    assert [key for key in all_keys(space) if is_learning_key(key)] == []


@pytest.mark.parametrize("name", [name for name in SPACES if name.startswith("quality")])
def test_quality_searches_only_what_changes_learning(name):
    space = load_space(shipped("search_spaces", name))
    assert [key for key in all_keys(space) if not is_learning_key(key)] == []


@pytest.mark.parametrize("name", SPACES)
def test_every_key_is_one_of_verl(name):
    verl = find_spec("verl")
    if verl is None:
        pytest.skip("verl is not installed")
    tree = yaml.safe_load(
        (Path(verl.submodule_search_locations[0]) / "trainer/config/_generated_ppo_trainer.yaml").read_text()
    )
    space = load_space(shipped("search_spaces", name))
    for key in all_keys(space):
        assert in_tree(tree, key.lstrip("+")) is not key.startswith("+"), key


def test_an_unknown_name_is_none():
    assert shipped("jobs", "nowhere") is None
    assert shipped("search_spaces", "survive_fsdp.yaml") == shipped("search_spaces", "survive_fsdp")


def in_tree(tree, dotted):
    for part in dotted.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True
