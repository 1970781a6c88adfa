import json
import os

import pytest

from autotune.verl_plugin import tiny_job


@pytest.fixture
def quick(monkeypatch):
    """Everything of the job but the supervised warm-up, which takes most of the time."""
    monkeypatch.setattr(tiny_job, "_warm_up", lambda model, tokenizer, words: None)


def test_answer_words_are_rewarded_as_often_as_promised():
    words = tiny_job._words()
    answers = words[: tiny_job.ANSWER_WORDS]
    assert len(set(words)) == len(words)
    assert sum(word.endswith(tiny_job.REWARDED_ENDING) for word in answers) == tiny_job.REWARDED_WORDS


@pytest.mark.timeout(180)
def test_a_half_written_folder_is_redone_and_a_complete_one_kept(tmp_path, quick):
    folder = tmp_path / "tiny"
    (folder / "model").mkdir(parents=True)
    (folder / "train.parquet").write_text("half")
    assert tiny_job.make_tiny_job(folder)
    assert sorted(os.listdir(folder)) == [
        "complete.json",
        "model",
        "reward.py",
        "train.parquet",
        "val.parquet",
    ]
    assert os.listdir(tmp_path) == ["tiny"]
    assert json.loads((folder / "model" / "config.json").read_text())["vocab_size"] == tiny_job.VOCABULARY
    written = os.stat(folder / "train.parquet").st_mtime_ns
    assert not tiny_job.make_tiny_job(folder)
    assert os.stat(folder / "train.parquet").st_mtime_ns == written
    _tokenizer_is_one_that_verl_takes(folder / "model")


def _tokenizer_is_one_that_verl_takes(folder):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == tiny_job.VOCABULARY
    assert len(tokenizer.encode("\n", add_special_tokens=False)) == 1
    first = tiny_job._words()[0]
    assert tokenizer.tokenize(f"{first} {first}") == [first, tiny_job.SPACE + first]
