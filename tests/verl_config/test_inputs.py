"""Every file that a configuration names, good and bad."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autotune.verl_config.inputs import input_faults

ROW = {
    "data_source": "tiny",
    "prompt": [{"role": "user", "content": "hello"}],
    "reward_model": {"style": "rule", "ground_truth": "a"},
}


@pytest.fixture
def flat(tmp_path):
    """The keys of a configuration whose files are all in order."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    pq.write_table(pa.Table.from_pylist([ROW] * 4), tmp_path / "data.parquet")
    (tmp_path / "reward.py").write_text("def compute_score(**_): return 1.0\n")
    return {
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.model.path": str(tmp_path / "model"),
        "critic.model.path": str(tmp_path / "no critic"),
        "data.train_files": [str(tmp_path / "data.parquet")],
        "data.val_files": str(tmp_path / "data.parquet"),
        "data.prompt_key": "prompt",
        "data.train_batch_size": 4,
        "reward.custom_reward_function.path": str(tmp_path / "reward.py"),
        "reward.custom_reward_function.name": "compute_score",
    }


def only_fault(flat, **options):
    (fault,) = input_faults(flat, "job.yaml", **options)
    assert fault.where == "job.yaml"
    return fault


def test_all_in_order(flat):
    assert input_faults(flat, "job.yaml") == []


@pytest.mark.parametrize("name", ["Qwen/Qwen2-7B", "hdfs://host/model"])
def test_names_that_are_no_local_files_are_passed_over(flat, name):
    assert input_faults({**flat, "actor_rollout_ref.model.path": name}, "job.yaml") == []


@pytest.mark.parametrize("name", ["./no/model", "no_such_folder", "~/no/such/model"])
def test_model_folder_missing(flat, name):
    fault = only_fault({**flat, "actor_rollout_ref.model.path": name})
    assert (fault.key, fault.found) == ("actor_rollout_ref.model.path", f"no folder {name}")


def test_model_folder_without_configuration(flat, tmp_path):
    (tmp_path / "model" / "config.json").unlink()
    assert "without config.json" in only_fault(flat).found


def test_the_critics_model_counts_only_with_a_critic(flat):
    assert only_fault({**flat, "algorithm.adv_estimator": "gae"}).key == "critic.model.path"


def test_data_missing(flat):
    fault = only_fault({**flat, "data.val_files": "no.parquet"})
    assert (fault.key, fault.found) == ("data.val_files", "no file no.parquet")


def test_data_without_rows(flat, tmp_path):
    pq.write_table(pa.Table.from_pylist([ROW]).slice(0, 0), tmp_path / "empty.parquet")
    assert "no rows" in only_fault({**flat, "data.train_files": str(tmp_path / "empty.parquet")}).found


def test_data_that_is_no_parquet(flat, tmp_path):
    (tmp_path / "bad.parquet").write_text("text")
    assert "cannot be read" in only_fault({**flat, "data.val_files": str(tmp_path / "bad.parquet")}).found


def test_data_without_the_columns(flat):
    faults = input_faults({**flat, "data.prompt_key": "question"}, "job.yaml")
    assert {fault.key for fault in faults} == {"data.train_files", "data.val_files"}
    assert "no column question" in faults[0].found


def test_own_reward_manager_needs_the_prompt_alone(flat, tmp_path):
    pq.write_table(pa.table({"prompt": ["a"] * 4}), tmp_path / "data.parquet")
    assert len(input_faults(flat, "job.yaml")) == 2
    assert input_faults({**flat, "reward.reward_manager.source": "importlib"}, "job.yaml") == []


def test_fewer_rows_than_a_batch(flat):
    fault = only_fault({**flat, "data.train_batch_size": 5})
    assert fault.found == "5 with 4 rows in data.train_files"


@pytest.mark.parametrize(
    ("code", "key", "found"),
    [
        ("def compute_score(:\n", "path", "line 1"),
        ("import no_such_module_here\n", "path", "No module named 'no_such_module_here'"),
        ("def other(): pass\n", "name", "no function compute_score"),
        ("compute_score = 1\n", "name", "no function compute_score"),
    ],
)
def test_reward_code(flat, tmp_path, code, key, found):
    (tmp_path / "reward.py").write_text(code)
    fault = only_fault(flat)
    assert fault.key == f"reward.custom_reward_function.{key}"
    assert found in fault.found


def test_reward_file_missing(flat):
    assert "no file gone.py" in only_fault({**flat, "reward.custom_reward_function.path": "gone.py"}).found


def test_reward_code_sees_the_environment(flat, tmp_path):
    (tmp_path / "reward.py").write_text("import os\nos.environ['MY_OWN']\ndef compute_score(): pass\n")
    assert "MY_OWN" in only_fault(flat, python=sys.executable).found
    assert input_faults(flat, "job.yaml", environment={"MY_OWN": "1"}) == []


def test_an_interpreter_that_is_not_there(flat):
    assert only_fault(flat, python="/no/python").key == "resources.python"


def test_everything_at_once(flat):
    faults = input_faults(
        {
            **flat,
            "actor_rollout_ref.model.path": "./x",
            "data.train_files": "x.parquet",
            "data.val_files": None,
        },
        "job.yaml",
    )
    assert [fault.key for fault in faults] == [
        "actor_rollout_ref.model.path",
        "data.train_files",
        "data.val_files",
    ]
