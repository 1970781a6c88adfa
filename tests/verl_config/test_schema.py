"""The stored keys of released versions."""

import gzip
import json
import zipfile

import pytest
import yaml

from autotune.errors import VerlConfigError
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose
from autotune.verl_config.schema.derive import as_differences, configurations
from autotune.verl_config.schema.released import DATA, released_schema, released_versions

ROLLOUT = "actor_rollout_ref.rollout"


def test_the_versions_and_their_size():
    assert released_versions() == ("0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.0", "0.9.1")
    assert DATA.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("key", "defaults"),
    [
        (f"{ROLLOUT}.max_num_seqs", {"0.6.1": 1024, "0.8.0": 1024, "0.9.1": 256}),
        (f"{ROLLOUT}.mode", {"0.6.1": "sync", "0.7.1": "async", "0.9.1": "async"}),
        (f"{ROLLOUT}.calculate_log_probs", {"0.8.0": False, "0.9.1": True}),
        ("actor_rollout_ref.model.use_remove_padding", {"0.6.1": False, "0.7.1": True}),
        (f"{ROLLOUT}.update_weights_bucket_megabytes", {"0.6.1": 512, "0.7.1": None}),
        (f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", {"0.6.1": None, "0.7.1": 2048}),
        ("trainer.use_v1", {"0.8.0": None, "0.9.1": True}),
    ],
)
def test_known_changes_between_versions(key, defaults):
    assert {v: released_schema(v, "ppo_trainer").defaults.get(key) for v in defaults} == defaults


def test_the_installed_verl_composes_to_the_stored_schema():
    composed = compose(VerlSection(overrides={}), {}).default_flat
    stored = released_schema("0.9.1", "ppo_trainer").resolved_defaults
    assert {key: value for key, value in composed.items() if key != "model_engine"} == stored


def test_interpolations_follow_the_users_values():
    schema = released_schema("0.9.1", "ppo_trainer")
    key = f"{ROLLOUT}.log_prob_max_token_len_per_gpu"
    assert schema.resolved({"actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 99})[key] == 99


def test_a_shells_variable_is_a_value_that_nobody_knows():
    schema = released_schema("0.9.1", "ppo_trainer")
    assert schema.resolved({f"{ROLLOUT}.name": "${1:-vllm}"})[f"{ROLLOUT}.name"] is None


@pytest.mark.parametrize(("version", "name"), [("0.3.0", "ppo_trainer"), ("0.9.1", "sft")])
def test_what_is_not_stored_is_named(version, name):
    with pytest.raises(VerlConfigError) as caught:
        released_schema(version, name)
    assert caught.value.faults[0].allowed


def test_differences_put_together_again(tmp_path):
    trees = {"1.0.0": {"a": {"b": 1, "c": [1], "gone": None}}, "1.1.0": {"a": {"b": True, "c": [1], "d": {}}}}
    flats = {}
    for version, tree in trees.items():
        wheel = tmp_path / f"verl-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("verl/trainer/config/_generated_ppo_trainer.yaml", yaml.safe_dump(tree))
        flats[version] = configurations(wheel)
    assert flats["1.0.0"] == {"ppo_trainer": {"a.b": 1, "a.c": [1], "a.gone": None}}
    assert as_differences(flats)["1.1.0"] == {
        "ppo_trainer": {"set": {"a.b": True, "a.d": {}}, "drop": ["a.gone"]}
    }


def test_the_stored_file_is_what_derive_writes():
    text = gzip.decompress(DATA.read_bytes()).decode()
    assert json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True) == text
