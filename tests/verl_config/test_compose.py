"""compose against the installed verl; verl itself is never imported."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from autotune.errors import VerlConfigError
from autotune.job.model import VerlSection
from autotune.verl_config import compose as compose_module
from autotune.verl_config.compose import compose, config_folder, verl_version

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"


def of(candidate=None, job=None, **section):
    verl = VerlSection(overrides={f"{ROLLOUT}.name": "vllm", **(job or {})}, **section)
    return compose(verl, candidate or {})


def read_back(text, tmp_path):
    (tmp_path / "written.yaml").write_text(text)
    with initialize_config_dir(str(tmp_path), version_base=None):
        return hydra_compose("written")


def test_defaults_alone():
    config = of()
    assert config.default_flat["data.train_batch_size"] == 1024
    assert config.flat[f"{ROLLOUT}.name"] == "vllm"
    assert config.default_flat[f"{ROLLOUT}.name"] == "???"
    assert config.tree["trainer"]["n_gpus_per_node"] == 8
    assert config.missing == ("reward.reward_model.rollout.name",)
    assert not config.added


def test_interpolations_follow_the_overrides():
    config = of({f"{ACTOR}.ppo_max_token_len_per_gpu": 5000, "data.max_response_length": 77})
    assert config.flat["actor_rollout_ref.ref.log_prob_max_token_len_per_gpu"] == 5000
    assert config.flat[f"{ROLLOUT}.response_length"] == 77


def test_an_override_may_be_an_interpolation():
    assert (
        of({f"{ROLLOUT}.max_model_len": "${data.max_prompt_length}"}).flat[f"{ROLLOUT}.max_model_len"] == 512
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trainer.logger", ["console", "file"]),
        ("data.seed", None),
        ("trainer.experiment_name", "a=b, {c: 'd'} [e] \\ #f: \"g\""),
        ("trainer.experiment_name", "1e-6"),
        ("trainer.experiment_name", "null"),
        ("data.train_files", ["a b.parquet", "c,d.parquet"]),
        ("+data.own", {"deep": {"list": [1, {"x": None}]}}),
        (f"{ROLLOUT}.engine_kwargs.vllm", {"compilation_config": {"sizes": [1, 2]}}),
        ("actor_rollout_ref.model.override_config.attn_implementation", "sdpa"),
        (f"{ACTOR}.fsdp_config.mixed_precision.param_dtype", "fp32"),
        ("ray_kwargs.ray_init.num_gpus", 1),
    ],
)
def test_values_arrive_exactly_also_through_the_yaml(key, value, tmp_path):
    config = of({key: value})
    composed = OmegaConf.to_container(read_back(config.yaml(), tmp_path))
    for tree in (config.tree, composed):
        node = tree
        for part in key.lstrip("+").split("."):
            node = node[part]
        assert node == value


def test_the_yaml_is_the_same_configuration(tmp_path):
    config = of({f"{ACTOR}.optim.lr": 3e-7})
    assert OmegaConf.to_container(read_back(config.yaml(), tmp_path), resolve=True) == config.tree


def test_same_as_hydra_makes_of_the_same_overrides():
    with initialize_config_dir(str(config_folder()), version_base=None):
        expected = hydra_compose(
            "ppo_trainer",
            overrides=[
                f"{ROLLOUT}.name=vllm",
                f"{ROLLOUT}.n=5",
                "trainer.logger=[console]",
                "model_engine=megatron",
            ],
        )
    config = of({f"{ROLLOUT}.n": 5, "trainer.logger": ["console"]}, job={"model_engine": "megatron"})
    assert config.tree == OmegaConf.to_container(expected, resolve=True, throw_on_missing=False)


def test_group_selections_change_the_defaults():
    megatron = of(job={"model_engine": "megatron"})
    assert megatron.default_flat[f"{ACTOR}.strategy"] == "megatron"
    assert megatron.flat["critic.strategy"] == "megatron"
    actor_only = of(job={"actor@actor_rollout_ref.actor": "megatron_actor"})
    assert actor_only.flat[f"{ACTOR}.strategy"] == "megatron"
    assert actor_only.flat["critic.strategy"] == "fsdp"


def test_candidate_wins_over_the_job_whatever_their_plus():
    config = of({"data.own": 2}, job={"+data.own": 1})
    assert config.flat["data.own"] == 2
    assert config.added == ("data.own",)


def test_mappings_merge_into_verls_sections():
    config = of({"algorithm.kl_ctrl": {"kl_coef": 0.5}})
    assert config.flat["algorithm.kl_ctrl.kl_coef"] == 0.5
    assert config.flat["algorithm.kl_ctrl.horizon"] == 10000


def test_number_written_as_text_is_a_number_where_verl_has_one():
    assert of({f"{ACTOR}.optim.lr": "1e-6"}).flat[f"{ACTOR}.optim.lr"] == 1e-6


def test_every_unknown_key_is_named_with_its_neighbours():
    with pytest.raises(VerlConfigError) as caught:
        of(
            {
                f"{ACTOR}.ppo_micro_batchsize_per_gpu": 1,
                "algorithm.clip_ratio": 0.2,
                "algorithm.kl_ctrl": {"koef": 1},
            }
        )
    faults = {fault.key: fault for fault in caught.value.faults}
    assert set(faults) == {
        f"{ACTOR}.ppo_micro_batchsize_per_gpu",
        "algorithm.clip_ratio",
        "algorithm.kl_ctrl.koef",
    }
    assert f"{ACTOR}.ppo_micro_batch_size_per_gpu" in faults[f"{ACTOR}.ppo_micro_batchsize_per_gpu"].allowed
    assert f"{ACTOR}.clip_ratio" in faults["algorithm.clip_ratio"].allowed


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (f"{ACTOR}.use_dynamic_bsz", "notabool", "true or false"),
        ("data.train_batch_size", "many", "a number"),
        ("data.train_batch_size", [1], "a number"),
        ("data.seed", "${no.such.key}", "resolve"),
        ("data.seed", "${1:-vllm}", "OmegaConf"),
    ],
)
def test_values_of_the_wrong_kind(key, value, allowed):
    with pytest.raises(VerlConfigError) as caught:
        of({key: value})
    (fault,) = caught.value.faults
    assert fault.key == key
    assert allowed in fault.allowed


def test_a_group_that_does_not_exist():
    with pytest.raises(VerlConfigError, match="no_such_engine"):
        of(job={"model_engine": "no_such_engine"})


def test_own_configuration_over_verls_without_importing_it(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "hydra:\n  searchpath: ['pkg://verl.trainer.config']\n"
        "defaults: [ppo_trainer, _self_]\ntrainer: {project_name: mine}\n"
    )
    config = of(config_path=str(tmp_path), config_name="mine.yaml")
    assert config.flat["trainer.project_name"] == "mine"
    assert config.flat["data.train_batch_size"] == 1024


def test_primary_configuration_that_is_not_there():
    with pytest.raises(VerlConfigError) as caught:
        of(config_name="ppo_trainr")
    assert "ppo_trainer" in caught.value.faults[0].allowed


def test_literal_dollar_brace_stays_literal(tmp_path):
    config = of({"trainer.experiment_name": r"\${not.a.key}"})
    assert config.flat["trainer.experiment_name"] == "${not.a.key}"
    assert read_back(config.yaml(), tmp_path).trainer.experiment_name == "${not.a.key}"


def test_leaves_an_outer_hydra_alone():
    with initialize_config_dir(str(config_folder()), version_base=None):
        outer = GlobalHydra.instance().hydra
        of(config_name="ppo_megatron_trainer")
        assert GlobalHydra.instance().hydra is outer


def test_a_candidate_costs_little():
    of()
    start_s = time.process_time()
    of({f"{ROLLOUT}.n": 5})
    assert time.process_time() - start_s < 0.6


def test_neither_verl_nor_torch_is_imported():
    program = (
        "import sys; from autotune.job.model import VerlSection;"
        "from autotune.verl_config.compose import compose;"
        "compose(VerlSection(overrides={}), {});"
        "print(sorted({'verl', 'torch', 'ray', 'vllm', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_and_folder():
    assert verl_version().count(".") >= 2
    assert (Path(config_folder()) / "ppo_trainer.yaml").is_file()


SETTINGS = [
    {},
    {"trainer.default_local_dir": "/tmp/a", "trainer.total_training_steps": 4},
    {"trainer.default_local_dir": "/tmp/b", "trainer.total_training_steps": 9, "data.seed": 3},
    {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": 5000},
    {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4, f"{ACTOR}.ppo_mini_batch_size": 8},
    {f"{ROLLOUT}.max_num_seqs": 64, f"{ROLLOUT}.max_num_batched_tokens": 512},
    {f"{ROLLOUT}.max_num_seqs": "128", f"{ACTOR}.optim.lr": "1e-6"},
    {f"{ACTOR}.optim.lr": 3e-6, f"{ACTOR}.optim": {"weight_decay": 0.5}},
    {f"{ACTOR}.optim": {"lr": 3e-6}, "data.max_response_length": 77},
    {f"{ROLLOUT}.max_model_len": "${data.max_prompt_length}", "data.max_prompt_length": 99},
    {"trainer.experiment_name": "${trainer.project_name}", "trainer.project_name": "p"},
    {"+trainer.new_key": 1, "trainer.logger": ["console", "file"]},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_configuration_made_from_an_earlier_one_is_what_composing_gives(settings):
    """Both in a cache that holds the others, and again from what it then holds."""
    section = VerlSection(overrides={f"{ROLLOUT}.name": "vllm", "data.train_batch_size": 64})
    for others in SETTINGS:
        compose(section, others)
    quick = compose(section, settings)
    plus = {key.lstrip("+") for key in settings if key.startswith("+")}
    values = {key.lstrip("+"): value for key, value in {**section.overrides, **settings}.items()}
    whole = compose_module._lay_over(
        compose_module._defaults(config_folder(), "ppo_trainer", ()), values, plus
    )
    assert quick.flat == whole.flat
    assert quick.tree == whole.tree
    assert quick.added == whole.added
    assert quick.yaml() == whole.yaml()


def test_faults_are_told_all_at_once_however_it_is_composed():
    with pytest.raises(VerlConfigError) as caught:
        of({"trainer.total_epochs": "many", "data.nonsense": 1, f"{ACTOR}.use_dynamic_bsz": "maybe"})
    assert len(caught.value.faults) == 3
