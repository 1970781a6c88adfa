from __future__ import annotations

import copy

import pytest

from autotune.errors import JobFileError
from autotune.job.loading import job_hash, load_job, load_space
from autotune.records import StageName

STAGE = "stages.survive"
SPACE = f"{STAGE}.search_space"
KEY = "actor_rollout_ref.rollout.max_num_seqs"


def faults_of(path):
    with pytest.raises(JobFileError) as caught:
        load_job(path)
    return {fault.key: fault for fault in caught.value.faults}


def put(job, dotted, value):
    """The job with one value set; `/` separates keys, since verl's have dots."""
    job = copy.deepcopy(job)
    *parents, last = dotted.split("/")
    section = job
    for part in parents:
        section = section.setdefault(part, {})
    section[last] = value
    return job


def test_a_small_job(write_job, job_dict):
    job = load_job(write_job(job_dict))
    assert job.stage_names() == (StageName.SURVIVE,)
    assert job.stages.survive.search_space.name == "survive"
    assert job.stages.survive.certificate.steps == 2
    assert job.verl.overrides["actor_rollout_ref.model.path"] == "Qwen/Qwen2-7B"


def test_numbers_are_those_of_hydra(write_job):
    text = """
name: small
verl: {overrides: {a.lr: 1e-6, a.list: [1, 2.5, yes], a.date: 2024-01-01, a.none: null}}
budget: {gpu_hours: 1e1}
stages: {survive: {search_space: survive_fsdp, steps: 3, trials: 2}}
"""
    job = load_job(write_job(text))
    assert job.verl.overrides == {
        "a.lr": 1e-6,
        "a.list": [1, 2.5, True],
        "a.date": "2024-01-01",
        "a.none": None,
    }
    assert job.budget.gpu_hours == 10.0


@pytest.mark.parametrize(
    ("where", "value", "key", "words"),
    [
        ("nam", "x", "nam", "unknown key `nam`|did you mean `name`"),
        ("name", "with space", "name", "'with space'|letters, digits"),
        ("name", 7, "name", "found 7|text|in quotes"),
        ("verl", None, "verl", "nothing|a mapping"),
        ("verl/overides", {}, "verl.overides", "did you mean `overrides`"),
        ("verl/overrides", [], "verl.overrides", "a mapping"),
        ("verl/overrides/a b", 1, "verl.overrides.a b", "`a b`|a dotted verl key"),
        ("verl/overrides/a.b=1", None, "verl.overrides[a.b=1]", "after a colon"),
        ("verl/overrides/~a.b", 1, "verl.overrides[~a.b]", "a dotted verl key"),
        ("verl/overrides/+data.train_batch_size", 1, "verl.overrides[+data.train_batch_size]", "second time"),
        ("verl/environment", {"OMP_NUM_THREADS": 2}, "verl.environment.OMP_NUM_THREADS", '"2" in quotes'),
        ("resources", 3, "resources", "a mapping"),
        ("resources/device", "cuda", "resources.device", "'cuda'|'gpu' or 'cpu'"),
        ("resources/gpus_per_trial", True, "resources.gpus_per_trial", "true|a whole number"),
        ("resources/gpus_per_trial", 2.5, "resources.gpus_per_trial", "2.5|a whole number"),
        ("resources/gpus_per_trial", 0, "resources.gpus_per_trial", "0|from 1 on"),
        ("resources/cpu/worker_memory_cap", 1, "resources.cpu.worker_memory_cap", "`worker_memory_cap_gb`"),
        ("budget/gpu_hours", "ten", "budget.gpu_hours", "'ten'|a number"),
        ("budget/gpu_hours", -1, "budget.gpu_hours", "-1|above 0"),
        ("guards/kl_metric", "actor/ppo_kl", "guards.kl_metric", "actor/kl_loss"),
        ("storage/ulr", "x", "storage.ulr", "`url`"),
        ("stages/survive/steps", "3", f"{STAGE}.steps", "'3'|a whole number"),
        ("finish", {"repeats": 1}, "finish.repeats", "from 2 on"),
        ("finish", {"repeat": 4}, "finish.repeat", "unknown key|`repeats`"),
        ("stages", {}, STAGE, "nothing|add `survive:` under `stages`"),
        ("stages/sped", {}, "stages.sped", "unknown key `sped`|survive, speed, quality|`speed`"),
        ("stages/survive", None, STAGE, "a mapping"),
        ("stages/survive/steps", 0, f"{STAGE}.steps", "from 1 on"),
        ("stages/survive/warmup_steps", 3, f"{STAGE}.warmup_steps", "3 of 3|fewer warm-up steps"),
        ("stages/survive/peak_memory_frac", 1.2, f"{STAGE}.peak_memory_frac", "up to 1"),
        ("stages/survive/certificate", {"steps": 1}, f"{STAGE}.certificate.steps", "from 2 on"),
        ("stages/survive/wanted_gain", 2, f"{STAGE}.wanted_gain", "unknown key"),
        ("stages/survive/overrides", {"a,b": 1}, f"{STAGE}.overrides.a,b", "a dotted verl key"),
        ("stages/survive/search_space", "survive_fsd", SPACE, "neither|did you mean `survive_fsdp`"),
        ("stages/survive/search_space", 5, SPACE, "found 5|shipped are: quality_grpo"),
        ("stages/survive/search_space", {}, f"{SPACE}.parameters", "nothing|add `parameters:`"),
        ("stages/survive/search_space/parameters", {}, f"{SPACE}.parameters", "1 or more entries"),
    ],
)
def test_each_fault_has_its_place_and_says_what_may_stand_there(
    write_job, job_dict, where, value, key, words
):
    path = write_job(put(job_dict, where, value))
    faults = faults_of(path)
    assert list(faults) == [key]
    assert faults[key].where.startswith(str(path))
    for word in words.split("|"):
        assert word in str(faults[key])


@pytest.mark.parametrize(
    ("parameter", "key", "words"),
    [
        (4, "", "a mapping"),
        ({}, ".kind", "int, float or categorical|add `kind:`"),
        ({"kind": "itn", "low": 1, "high": 2}, ".kind", "'itn'|did you mean `int`"),
        ({"kind": "int", "low": 1}, ".high", "nothing|add `high:`|Largest value"),
        ({"kind": "int", "low": 3, "high": 2}, ".low", "low 3 above high 2"),
        ({"kind": "int", "low": "2 * 4", "high": 2}, ".low", "low 8 above high 2"),
        ({"kind": "int", "low": [1], "high": 2}, ".low", "[1]|a whole number or a number or text"),
        ({"kind": "int", "low": "sequence_token", "high": 2}, ".low", "did you mean `sequence_tokens`"),
        ({"kind": "int", "low": "1 +", "high": 2}, ".low", "not an expression"),
        ({"kind": "int", "low": "open('x')", "high": 2}, ".low", "unknown function"),
        ({"kind": "int", "low": 1, "high": "1 / 0"}, ".high", "division by zero"),
        ({"kind": "float", "low": 0, "high": 2, "log": True}, ".low", "log: true|above 0"),
        ({"kind": "float", "low": 1, "high": 2, "log": True, "step": 0.5}, ".step", "one of the two"),
        ({"kind": "int", "low": 1, "high": 2, "step": 0}, ".step", "from 1 on"),
        ({"kind": "int", "low": 1, "high": 2, "log": "yes"}, ".log", "true or false"),
        ({"kind": "int", "low": 1, "high": 2, "choices": [1]}, ".choices", "unknown key"),
        ({"kind": "categorical", "choices": []}, ".choices", "1 or more entries"),
        ({"kind": "categorical", "choices": [1, "=gpu * 2"]}, ".choices[1]", "did you mean `gpus`"),
        ({"kind": "categorical", "choices": [1], "keep": "valu > 2"}, ".keep", "did you mean `value`"),
        (
            {"kind": "categorical", "choices": [1], "when": "use_dynamic"},
            ".when",
            "did you mean `use_dynamic_bsz`",
        ),
        (
            {"kind": "categorical", "choices": [1], "when": "max_num_seqs > 1"},
            ".when",
            "unknown name|earlier in the file",
        ),
        ({"kind": "categorical", "choices": [1], "also": [KEY]}, "", "set by"),
        ({"kind": "categorical", "choices": [1], "also": "a.b"}, ".also", "a list"),
        ({"kind": "categorical", "choices": [1], "also": ["trainer.balance_batch"]}, "", "has no effect"),
    ],
)
def test_each_fault_of_a_parameter(write_job, job_dict, parameter, key, words):
    job = put(job_dict, f"stages/survive/search_space/parameters/{KEY}", parameter)
    faults = faults_of(write_job(job))
    assert list(faults) == [f"{SPACE}.parameters[{KEY}]{key}"]
    for word in words.split("|"):
        assert word in str(faults[f"{SPACE}.parameters[{KEY}]{key}"])


def test_a_key_that_is_no_text_is_told_once(write_job, job_dict):
    (fault,) = faults_of(write_job({**job_dict, 1: 2})).values()
    assert "the key '1'" in fault.found
    assert 'write "1" in quotes' in fault.next_step


@pytest.mark.parametrize(
    ("dead", "live"),
    [
        ("actor_rollout_ref.actor.grad_clip", "actor_rollout_ref.actor.optim.clip_grad"),
        ("actor_rollout_ref.actor.clip_ratio", "clip_ratio_low"),
        (
            "+actor_rollout_ref.actor.use_torch_compile",
            "actor_rollout_ref.actor.fsdp_config.use_torch_compile",
        ),
        ("reward_model.rollout.gpu_memory_utilization", "reward.reward_model"),
    ],
)
def test_a_dead_key_names_the_live_one(write_job, job_dict, dead, live):
    job = put(
        job_dict, "stages/survive/search_space/parameters", {dead: {"kind": "categorical", "choices": [1]}}
    )
    (fault,) = faults_of(write_job(job)).values()
    assert "has no effect" in fault.found
    assert live in fault.next_step


def test_everything_wrong_is_told_at_once_in_file_order(write_job):
    text = """\
name: small
nmae: x
verl:
  overrides: {a.b: 1}
  overrides: {a.b: 2}
resources: {device: tpu}
stages:
  survive:
    search_space: nowhere
    steps: 3
    trials: none
  speed:
    search_space:
      parameters:
        a.x: {kind: int, low: 5, high: 1, when: nonsense}
        a.y: {kind: what}
    steps: 2
    trials: 2
  quality:
    steps: 2
    trials: 2
    kl_band: [2, 1]
  end: {}
"""
    path = write_job(text)
    with pytest.raises(JobFileError) as caught:
        load_job(path)
    assert [(fault.where.removeprefix(str(path)), fault.key) for fault in caught.value.faults] == [
        (":2", "nmae"),
        (":5", "verl.overrides"),
        (":6", "resources.device"),
        (":9", "stages.survive.search_space"),
        (":11", "stages.survive.trials"),
        (":15", "stages.speed.search_space.parameters[a.x].when"),
        (":15", "stages.speed.search_space.parameters[a.x].low"),
        (":16", "stages.speed.search_space.parameters[a.y].kind"),
        (":19", "stages.quality.search_space"),
        (":22", "stages.quality.kl_band"),
        (":23", "stages.end"),
    ]


def test_faults_of_a_space_file_carry_its_own_name(write_job, job_dict):
    space = write_job("name: mine\nparameters:\n  a.b: {kind: int, low: 2, high: 1}\n", "spaces/mine.yaml")
    path = write_job(put(job_dict, "stages/survive/search_space", "spaces/mine.yaml"))
    (fault,) = faults_of(path).values()
    assert fault.where == f"{space}:3"
    assert fault.key == "parameters[a.b].low"


def test_a_space_file_stands_beside_the_job(write_job, job_dict):
    write_job("name: mine\nparameters:\n  a.b: {kind: int, low: 1, high: 2}\n", "survive_fsdp")
    job = load_job(write_job(put(job_dict, "stages/survive/search_space", "survive_fsdp")))
    assert job.stages.survive.search_space.name == "mine"


def test_a_space_file_needs_a_name(write_job):
    with pytest.raises(JobFileError, match="name; found nothing"):
        load_space(write_job("parameters:\n  a.b: {kind: int, low: 1, high: 2}\n"))


def test_local_inputs_become_absolute_and_hub_ids_stay(write_job, job_dict, tmp_path):
    (tmp_path / "train.parquet").touch()
    job = put(job_dict, "verl/overrides/data.train_files", ["train.parquet", "hdfs://x/y.parquet"])
    job = put(job, "stages/survive/overrides/data.val_files", "train.parquet")
    loaded = load_job(write_job(job))
    absolute = str(tmp_path / "train.parquet")
    assert loaded.verl.overrides["data.train_files"] == [absolute, "hdfs://x/y.parquet"]
    assert loaded.stages.survive.overrides["data.val_files"] == absolute
    assert loaded.verl.overrides["actor_rollout_ref.model.path"] == "Qwen/Qwen2-7B"


@pytest.mark.parametrize(
    ("where", "value", "changes"),
    [
        ("name", "other", True),
        ("verl/overrides/data.train_batch_size", 16, True),
        ("verl/environment", {"A": "b"}, True),
        ("resources/gpus_per_trial", 2, True),
        ("stages/survive/steps", 4, True),
        (f"stages/survive/search_space/parameters/{KEY}/choices", [4, 16], True),
        (f"stages/survive/search_space/parameters/{KEY}/why", "Because.", False),
        ("stages/survive/trials", 20, False),
        ("resources/trials_at_once", 2, False),
        ("resources/batch", 2, False),
        ("budget/gpu_hours", 2, False),
        ("storage/results", "elsewhere", False),
        ("guards/wall_limit_s", 60, False),
    ],
)
def test_the_hash_changes_with_the_question_only(write_job, job_dict, where, value, changes):
    before = job_hash(load_job(write_job(job_dict)))
    after = job_hash(load_job(write_job(put(job_dict, where, value))))
    assert len(before) == 16
    assert (after != before) is changes
