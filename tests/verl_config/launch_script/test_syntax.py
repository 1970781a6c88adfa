"""The tree's text is the script's own, whatever the grammar was shown."""

from hypothesis import given
from hypothesis import strategies as st

from autotune.verl_config.launch_script.syntax import for_the_grammar, parse


@given(st.text(max_size=80).map(str.encode))
def test_the_grammar_sees_single_bytes_at_the_same_places(source):
    shown = for_the_grammar(source)
    assert len(shown) == len(source)
    assert shown.isascii()
    assert all(ours == theirs for ours, theirs in zip(shown, source, strict=True) if theirs < 128)


def test_words_beyond_ascii_come_back_as_they_were_written():
    written = "trainer.project_name='\u00e9\u6a21' \U0006f672=1\n# sp\u00e4ter\n"
    script = parse(written)
    assert script.text(script.root) == written
