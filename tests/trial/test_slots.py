"""The launcher's books: which node takes an attempt, and which idle sessions go for it."""

import pytest

from autotune.trial.sessions import WarmSession
from autotune.trial.slots import Place, SlotBooks, unheld


def session(name, node="n", gpus=1):
    return WarmSession(name, f"/results/sessions/{name}", "key", runner=object(), gpus=gpus, node=node)


@pytest.mark.parametrize(
    ("free", "gpus", "most", "running", "expected"),
    [
        ({"n": 4}, 1, None, 0, 4),
        ({"n": 4}, 3, None, 0, 1),
        ({"n": 3, "m": 2}, 2, None, 0, 2),
        ({"n": 3, "m": 2}, 4, None, 0, 0),
        ({"n": 4}, 1, 2, 1, 1),
        ({"n": 4}, 1, 2, 2, 0),
        ({"n": 0}, 1, None, 3, 0),
    ],
)
def test_slots_are_whole_attempts_on_one_node_each(free, gpus, most, running, expected):
    assert SlotBooks(free, running=running, most=most).slots(gpus) == expected


def test_what_an_idle_session_holds_is_free():
    books = SlotBooks({"n": 1, "m": 0}, idle=[session("a", gpus=2), session("b", node="m")])
    assert (books.slots(1), books.slots(3), books.slots(4)) == (4, 1, 0)


def test_a_small_attempt_leaves_the_large_hole_alone():
    books = SlotBooks({"n": 4, "m": 2})
    assert books.place(1) == books.place(2) == Place("m")
    assert books.place(3) == Place("n")
    assert books.place(5) is None


def test_the_fewest_sessions_go_the_oldest_first():
    old, new, far = session("old"), session("new"), session("far", node="m", gpus=2)
    books = SlotBooks({"n": 0, "m": 0}, idle=[old, new, far])
    assert books.place(2) == Place("m", (far,))
    assert SlotBooks({"n": 0}, idle=[old, new]).place(1) == Place("n", (old,))
    assert SlotBooks({"n": 0}, idle=[old, new]).place(2) == Place("n", (old, new))
    assert SlotBooks({"n": 1}, idle=[old, new]).place(1) == Place("n")


def test_no_more_processes_live_than_the_job_allows():
    old, new = session("old"), session("new")
    assert SlotBooks({"n": 5}, idle=[old, new], running=1, most=3).place(1) == Place("n", (old,))
    assert SlotBooks({"n": 5}, idle=[old, new], running=0, most=3).place(1) == Place("n")


def test_books_and_ray_are_both_believed_where_they_say_less():
    held = [("n", 2), ("m", 1)]
    assert unheld({"n": 4, "m": 4}, held, None) == {"n": 2, "m": 3}
    assert unheld({"n": 4, "m": 4}, held, {"n": 4, "m": 1}) == {"n": 2, "m": 1}
    assert unheld({"n": 4, "m": 4}, held, {"m": 3}) == {"n": 0, "m": 3}  # a node that is gone
    assert unheld({"n": 1}, [("n", 2)], None) == {"n": 0}
