"""Candidates of one session, as the runner follows them; the session's process is a stand-in."""

import json
import uuid
from pathlib import Path

import pytest
from stand_in_verl import living, wait_for

from autotune.job.paths import AttemptPaths
from autotune.judge.event_json import event_from_json
from autotune.records import AttemptEnd, MetricRow
from autotune.trial.orphans import end_orphan
from autotune.trial.recorded import read_attempt
from autotune.trial.request import SessionPlace
from autotune.trial.runner import MOST_CANDIDATES, Runner
from autotune.trial.running import read_running

ROW = {"step": 1, "data": {"critic/rewards/mean": 0.5}}


class Session:
    """A runner, and the candidates that it is given."""

    def __init__(self, make_request, folder: Path) -> None:
        self.runner = Runner()
        self.paths = AttemptPaths(folder)
        self._make_request = make_request
        self._given = 0

    def give(self, number=None, **plan):
        place = SessionPlace(
            id="session0",
            folder=str(self.paths.root),
            number=self._given if number is None else number,
            entry="fake_session",
        )
        self._given = place.number + 1
        request = self._make_request({"session": place, "session_key": "key"}, **plan)
        self.runner.start(request.to_json())
        return AttemptPaths(Path(request.folder))

    def events(self):
        found = []

        def ended():
            found.extend(event_from_json(value) for value in self.runner.poll())
            return found and isinstance(found[-1], AttemptEnd)

        wait_for(ended)
        return found


@pytest.fixture
def session(make_request, tmp_path):
    made = Session(make_request, tmp_path / uuid.uuid4().hex[:8])
    yield made
    made.runner.retire()
    assert end_orphan(made.paths).left_behind == ()
    assert living(made.paths) == []


def test_candidates_follow_each_other_in_one_process(session):
    first = session.give(console=["the first one"], metrics=[ROW])
    (end,) = (event for event in session.events() if isinstance(event, AttemptEnd))
    assert (end.exit_code, end.asked, end.lost, end.session, end.session_number) == (
        0,
        False,
        False,
        "session0",
        0,
    )
    second = session.give(console=["the second one"], metrics=[ROW, ROW | {"step": 2}])
    events = session.events()
    assert [row.step for row in events if isinstance(row, MetricRow)] == [1, 2]
    assert (events[-1].session_number, events[-1].session_over) == (1, False)
    assert living(session.paths) == ["verl"]
    assert first.console.read_text() == "the session starts\nthe first one\n"
    assert second.console.read_text() == "the second one\n"


def test_a_candidate_that_is_asked_to_stop_leaves_the_session_to_the_next(session):
    attempt = session.give(endless="listening", metrics=[ROW])
    wait_for(attempt.metrics.exists)
    session.runner.end("a guard", 30.0)
    end = session.events()[-1]
    assert (end.asked, end.exit_code, end.session_over) == (True, 0, False)
    session.give()
    assert session.events()[-1].exit_code == 0


def test_one_that_does_not_listen_is_ended_with_its_process(session):
    attempt = session.give(endless="deaf", metrics=[ROW])
    wait_for(attempt.metrics.exists)
    session.runner.end("a guard", 0.2)
    end = session.events()[-1]
    assert (end.asked, end.session_over, end.left_behind, living(session.paths)) == (True, True, (), [])


def test_an_end_that_spares_nothing_takes_the_tree(session):
    attempt = session.give(endless="listening", metrics=[ROW])
    wait_for(attempt.metrics.exists)
    session.runner.end("Ctrl-C")
    end = session.events()[-1]
    assert (end.asked, end.session_over, living(session.paths)) == (True, True, [])


def test_a_failing_candidate_ends_the_session_as_it_would_end_verl(session):
    session.give()
    session.events()
    session.give(console=["RuntimeError: all is lost"], dies="running")
    end = session.events()[-1]
    assert (end.exit_code, end.lost, end.session_over, end.session_number) == (1, False, True, 1)
    assert "RuntimeError: all is lost" in end.tail


@pytest.mark.parametrize(("earlier", "lost"), [(0, False), (1, True)])
def test_a_session_that_dies_over_its_reset_is_not_the_candidates_fault(session, earlier, lost):
    for _ in range(earlier):
        session.give()
        session.events()
    session.give(dies="preparing")
    assert session.events()[-1].lost is lost


def test_a_session_is_over_after_its_last_candidate(session):
    session.give()
    session.events()
    session.give(number=1)
    session.events()
    # The stand-in counts for itself, so the last candidate's number is handed over under its own name.
    last = SessionPlace(
        id="s", folder=str(session.paths.root), number=MOST_CANDIDATES - 1, entry="fake_session"
    )
    inbox = session.paths.root / "inbox"
    request = session._make_request({"session": last, "session_key": "key"})
    session.runner.start(request.to_json())
    wait_for(lambda: (inbox / f"{last.number:06d}.json").exists())
    (inbox / f"{last.number:06d}.json").rename(inbox / "000002.json")
    assert session.events()[-1].session_over


def test_an_attempt_of_a_session_can_be_read_again_and_ended_after_a_crash(session):
    attempt = session.give(metrics=[ROW])
    session.events()
    events = read_attempt(attempt)
    assert [row.step for row in events if isinstance(row, MetricRow)] == [1]
    assert events[-1].session == "session0"
    running = session.give(endless="deaf", metrics=[ROW])
    wait_for(running.metrics.exists)
    assert read_running(running.running).supervisor == read_running(session.paths.running).supervisor
    end = end_orphan(running)
    assert (end.lost, end.left_behind, living(session.paths)) == (True, (), [])


def test_the_start_that_candidates_go_back_to_is_gone_with_the_session(session):
    session.give()
    session.events()
    assert session.paths.session_start.exists()
    session.runner.retire()
    wait_for(session.paths.end.exists)
    assert not session.paths.session_start.exists()
    assert json.loads(session.paths.end.read_text())["left_behind"] == []
