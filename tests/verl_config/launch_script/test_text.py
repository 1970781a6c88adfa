from __future__ import annotations

import pytest

from autotune.verl_config.launch_script.text import Fields, Piece, is_known, known, reasons, shown, unknown


@pytest.mark.parametrize(
    ("text", "words"),
    [("a b", ["a", "b"]), ("  a  ", ["a"]), ("", []), ("   ", []), ("a\n b\tc", ["a", "b", "c"])],
)
def test_an_unquoted_expansion_splits_at_blanks(text, words):
    fields = Fields()
    fields.add_split(known(text))
    assert [shown(word) for word in fields.words()] == words


def test_what_stands_beside_an_expansion_joins_its_first_and_last_word():
    fields = Fields()
    fields.add(known("x="))
    fields.add_split(known("1 y=2"))
    fields.add(known("3"))
    assert [shown(word) for word in fields.words()] == ["x=1", "y=23"]


def test_empty_quotes_are_a_word():
    fields = Fields()
    fields.add(known(""))
    assert fields.words() == [()]


def test_a_list_gives_a_word_an_element():
    fields = Fields()
    fields.add(known("<"))
    fields.add_list([known("a b"), known("c")])
    fields.add(known(">"))
    assert [shown(word) for word in fields.words()] == ["<a b", "c>"]


def test_unknown_parts_keep_their_shell_text_and_each_reason_once():
    text = (Piece("run-"), *unknown("$(date)", "printed"), *unknown("$X", "printed"))
    assert not is_known(text)
    assert shown(text) == "run-$(date)$X"
    assert reasons(text) == "printed"
