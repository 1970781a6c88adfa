"""What interpolations may read, and what is free of them."""

import pytest

from autotune.verl_config.substitution import read_names, stands_alone, substituted

READ = read_names(["${oc.select:actor.optim.lr,null}", "${..steps}", "${a.${b}.c}", "x ${data.rows} y"])


def test_the_last_names_count_nested_and_relative_ones_too():
    assert {"lr", "steps", "b", "c", "rows"} <= READ
    assert "optim" not in READ


@pytest.mark.parametrize(
    ("key", "value", "alone"),
    [
        ("trainer.folder", "x", True),
        ("actor.optim.lr", 1e-6, False),
        ("critic.lr", 1e-6, False),  # another one of that name: rather not
        ("rows.inner", 1, False),  # inside a section that is read as a whole
        ("trainer.folder", "${data.rows}", False),
        ("trainer.folder", "???", False),
        ("trainer.folder", ["x"], False),
    ],
)
def test_only_what_nothing_reads_stands_alone(key, value, alone):
    assert stands_alone(key, value, READ) is alone


def test_one_leaf_is_replaced_and_the_rest_is_shared():
    tree = {"a": {"b": {"c": 1}, "d": {"e": 2}}, "f": 3}
    changed = substituted(tree, "a.b.c", 9)
    assert changed == {"a": {"b": {"c": 9}, "d": {"e": 2}}, "f": 3}
    assert tree["a"]["b"]["c"] == 1
    assert changed["a"]["d"] is tree["a"]["d"]
