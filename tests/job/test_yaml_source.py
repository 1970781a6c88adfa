from __future__ import annotations

import math

import pytest

from autotune.errors import JobFileError
from autotune.job.yaml_source import dotted, parse_yaml, read_yaml


def parsed(text):
    return parse_yaml(text, "x.yaml", "job file")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("-.inf", -math.inf),
        ("12", 12),
        ("1e", "1e"),
        ("e5", "e5"),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("on", True),
        ("~", None),
        ("'1e-6'", "1e-6"),
    ],
)
def test_values_are_those_that_hydra_reads(text, value):
    result = parsed(f"key: {text}").value["key"]
    assert result == value
    assert type(result) is type(value)


def test_lines_of_keys_and_items():
    source = parsed("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n")
    assert source.place(("a", "c", 1, "y")) == "x.yaml:5"
    assert source.place(("a", "b")) == "x.yaml:2"
    assert source.place(("a", "nowhere")) == "x.yaml:1"
    assert source.place(()) == "x.yaml"


def test_every_key_given_twice_is_told():
    faults = parsed("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").faults
    assert [(fault.where, fault.key) for fault in faults] == [("x.yaml:4", "b.c"), ("x.yaml:5", "a")]
    assert "first in line 3" in faults[0].found


@pytest.mark.parametrize("key", ["1", "on", "null", "1.5", "[a]"])
def test_a_key_must_be_text(key):
    (fault,) = parsed(f"? {key}\n: 1\nb: 2\n").faults
    assert "text as key" in fault.allowed


def test_merged_keys_are_no_duplicates():
    source = parsed("base: &base {a: 1, b: 2}\nmine:\n  <<: *base\n  a: 3\n")
    assert source.faults == ()
    assert source.value["mine"] == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a: [1, 2\nb: 3", "x.yaml:2", "not YAML"),
        ("a:\n\t- 1", "x.yaml:2:1", "not YAML"),
        ("a: 1\n b: 2", "x.yaml:2", "not YAML"),
        ("a: 1\n---\nb: 2", "x.yaml:2", "not YAML"),
        ("a: !!python/object:os.system {}", "x.yaml:1", "not YAML"),
        ("a: *nowhere", "x.yaml:1", "undefined alias"),
        ("a: \x00", "x.yaml", "not YAML"),
        ("", "x.yaml", "nothing"),
        ("# only a comment", "x.yaml", "nothing"),
        ("- a\n- b", "x.yaml", "list"),
        ("just text", "x.yaml", "str 'just text'"),
        ("[" * 1000, "x.yaml", ""),
    ],
)
def test_malformed_text(text, place, found):
    with pytest.raises(JobFileError) as caught:
        parsed(text)
    (fault,) = caught.value.faults
    assert fault.where.startswith(place)
    assert found in fault.found


def test_aliases_are_walked_once():
    text = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert len(parsed(text).lines) < 200


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("stages", "survive", "steps"), "stages.survive.steps"),
        (("verl", "overrides", "data.train_files", 0), "verl.overrides[data.train_files][0]"),
        ((), ""),
    ],
)
def test_dotted(path, text):
    assert dotted(path) == text


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "tiny.yaml").write_text("a: 1")
    with pytest.raises(JobFileError, match=r"no such file.*tiny.yaml"):
        read_yaml(tmp_path / "tny.yaml", "job file")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(JobFileError, match="no folder"):
        read_yaml(tmp_path / "no" / "job.yaml", "job file")


def test_a_folder_or_binary_file_is_no_yaml(tmp_path):
    with pytest.raises(JobFileError, match="Is a directory"):
        read_yaml(tmp_path, "job file")
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobFileError, match="UTF-8"):
        read_yaml(tmp_path / "x.yaml", "job file")
