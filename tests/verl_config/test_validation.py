"""verl's own checks through the child, and the child's own death."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autotune.errors import VerlConfigError
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose
from autotune.verl_config.validation import VerlValidator
from autotune.verl_plugin.environment import CPU_ENVIRONMENT
from autotune.verl_plugin.validator import is_installed

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
SANE = {
    "algorithm.adv_estimator": "grpo",
    "trainer.n_gpus_per_node": 1,
    "data.train_batch_size": 8,
    "data.max_prompt_length": 24,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.ppo_mini_batch_size": 8,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 8,
    "critic.ppo_micro_batch_size_per_gpu": 8,
}


def text_of(changes):
    return compose(VerlSection(overrides=SANE), changes).yaml()


@pytest.fixture(scope="module")
def validator():
    with VerlValidator(sys.executable, CPU_ENVIRONMENT) as opened:
        yield opened


@pytest.mark.verl
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "changes", [{}, {"algorithm.adv_estimator": "gae"}, {f"{ACTOR}.use_dynamic_bsz": True}]
)
def test_sane_configurations_are_taken(validator, model_folder, changes):
    text = text_of({**changes, "critic.model.path": str(model_folder)})
    assert validator.validate(text) == []


@pytest.mark.verl
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("changes", "rule", "text"),
    [
        (
            {f"{ACTOR}.ppo_mini_batch_size": 16},
            "verl.utils.config.validate_config",
            "train_batch_size (8) must be >=",
        ),
        (
            {f"{ACTOR}.loss_agg_mode": "mean"},
            "verl.utils.config.validate_config",
            "Invalid loss_agg_mode: mean",
        ),
        ({f"{ROLLOUT}.mode": "sync"}, "actor_rollout_ref.rollout", "'sync' has been removed"),
        ({f"+{ROLLOUT}.no_such_field": 1}, "actor_rollout_ref.rollout", "no_such_field"),
        ({"+actor_rollout_ref.ref.no_such_field": 1}, "actor_rollout_ref.ref", "no_such_field"),
        (
            {"algorithm.adv_estimator": "gae", "critic.ppo_micro_batch_size_per_gpu": None},
            "critic",
            "[critic] Please set at least one of",
        ),
    ],
)
def test_what_verl_refuses_is_told_with_its_rule(validator, changes, rule, text):
    complaints = validator.validate(text_of(changes))
    assert any(complaint.startswith(rule) and text in complaint for complaint in complaints), complaints


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """Byte-level tokenizer, chat template with one mark before and after a message, a model's config."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({letter: number for number, letter in enumerate(letters)}, [])
    bare = tokenizers.Tokenizer(model)
    bare.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bare)
    tokenizer.chat_template = "{% for m in messages %}<{{m['content']}}>{% endfor %}"
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    sizes = {"vocab_size": 256, "n_layer": 1, "n_head": 2, "n_embd": 8}
    transformers.GPT2Config(**sizes, architectures=["GPT2LMHeadModel"]).save_pretrained(folder)
    return folder


@pytest.mark.verl
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("rows", "lengths"), [(2, [22, 10]), (5, [22, 10, 3, 22, 10])])
def test_longest_prompts_that_still_fit(validator, model_folder, tmp_path, rows, lengths):
    prompts = [[{"role": "user", "content": "x" * length}] for length in (3, 22, 40, 10)]
    table = pa.table({"prompt": prompts, "reward_model": [{"ground_truth": letter} for letter in "abcd"]})
    pq.write_table(table, tmp_path / "data.parquet")
    text = text_of(
        {
            "data.train_files": [str(tmp_path / "data.parquet")],
            "actor_rollout_ref.model.path": str(model_folder),
        }
    )
    assert validator.longest_prompts(text, rows, tmp_path / "longest.parquet") == 24
    written = pq.read_table(tmp_path / "longest.parquet")
    assert written.schema.equals(table.schema)
    assert [len(prompt[0]["content"]) for prompt in written["prompt"].to_pylist()] == lengths


@pytest.mark.verl
@pytest.mark.timeout(300)
def test_lengths_of_the_prompts(validator, model_folder, tmp_path):
    prompts = [[{"role": "user", "content": "x" * length}] for length in (3, 22, 40, 10)]
    pq.write_table(pa.table({"prompt": prompts}), tmp_path / "data.parquet")
    changes = {
        "data.train_files": [str(tmp_path / "data.parquet")],
        "actor_rollout_ref.model.path": str(model_folder),
    }
    found = validator.prompt_lengths(text_of(changes))
    assert (found.rows, found.counted, found.mean, found.longest) == (4, 4, 83 / 4, 42)
    assert (found.quantiles_tokens[0.5], found.over_limit_frac, found.masks_fit) == (24, 0.25, True)
    assert validator.prompt_lengths(text_of(changes), rows=2).counted == 2


@pytest.mark.verl
@pytest.mark.timeout(300)
def test_data_that_cannot_be_read_is_a_fault_and_the_child_lives_on(validator, tmp_path):
    text = text_of({"data.train_files": str(tmp_path / "gone.parquet")})
    with pytest.raises(VerlConfigError, match=r"gone\.parquet"):
        validator.longest_prompts(text, 1, tmp_path / "longest.parquet")
    assert validator.validate(text_of({})) == []


@pytest.mark.verl
@pytest.mark.timeout(300)
def test_the_written_file_starts_verls_own_entry(tmp_path):
    """Stock main_ppo composes the file and validates it; Ray is kept from starting."""
    (tmp_path / "best.yaml").write_text(text_of({}))
    program = (
        "import sys, ray, verl.trainer.main_ppo as entry\n"
        "entry.run_ppo = lambda config, task_runner_class: print('reached', config.data.train_batch_size)\n"
        f"sys.argv = ['main_ppo', '--config-path', {str(tmp_path)!r}, '--config-name', 'best', "
        f"'hydra.run.dir={tmp_path}/out', 'trainer.total_training_steps=2']\n"
        "entry.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **CPU_ENVIRONMENT}
    )
    assert "All configuration checks passed" in done.stdout, done.stderr[-2000:]
    assert "reached 8" in done.stdout


@pytest.mark.verl
@pytest.mark.timeout(300)
def test_verl_says_which_loggers_it_cannot_open(validator):
    missing = validator.missing_loggers(["tensorboard", "parchment"])
    assert missing == {"parchment": "this verl has no such logger"}


def test_a_folder_that_a_run_left_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "some_tracker").mkdir()
    (tmp_path / "other_tracker.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert [is_installed(name) for name in ("some_tracker", "other_tracker", "no_tracker")] == [
        False,
        True,
        False,
    ]


def test_an_interpreter_that_dies_shows_its_last_lines(tmp_path):
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").write_text("raise RuntimeError('no driver here')\n")
    validator = VerlValidator(sys.executable, {"PYTHONPATH": str(tmp_path)})
    with validator, pytest.raises(VerlConfigError, match="no driver here"):
        validator.validate("{}")


def test_an_interpreter_that_is_not_there():
    with pytest.raises(VerlConfigError, match="/no/python"):
        VerlValidator("/no/python", {}).validate("{}")


def test_nothing_is_started_before_it_is_asked():
    with VerlValidator("/no/python", {}):
        pass
