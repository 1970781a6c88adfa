"""The files between a runner and a session."""

from autotune.verl_plugin.warm import wire


def test_a_candidate_is_handed_over_by_its_number(tmp_path):
    assert wire.handed_over(tmp_path, 0) is None
    wire.hand_over(tmp_path, 0, tmp_path / "attempt")
    wire.hand_over(tmp_path, 1, tmp_path / "next")
    assert wire.handed_over(tmp_path, 0) == tmp_path / "attempt"
    assert wire.handed_over(tmp_path, 1) == tmp_path / "next"
    assert wire.handed_over(tmp_path, 2) is None


def test_a_mark_is_read_as_it_was_written(tmp_path):
    assert wire.read_mark(tmp_path) is None
    for mark in (wire.SessionMark("preparing"), wire.SessionMark("running", 1.5)):
        wire.write_mark(tmp_path, mark)
        assert wire.read_mark(tmp_path) == mark
    assert list(tmp_path.iterdir()) == [wire.mark_path(tmp_path)]


def test_a_stop_is_asked_for_in_the_attempts_folder(tmp_path):
    assert not wire.is_asked_to_stop(tmp_path)
    wire.ask_to_stop(tmp_path)
    wire.ask_to_stop(tmp_path)
    assert wire.is_asked_to_stop(tmp_path)
    wire.ask_to_stop(tmp_path / "gone")  # too late is no fault


def test_a_folder_that_is_none_has_no_mark(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert wire.read_mark(tmp_path / "file" / "attempt") is None
    assert wire.handed_over(tmp_path / "file", 0) is None
