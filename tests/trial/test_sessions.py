"""The launcher's books: which session takes which candidate."""

from autotune.trial.sessions import SessionPool, WarmSession


def session(name, key):
    return WarmSession(name, f"/results/sessions/{name}", key, runner=object())


def test_a_session_takes_candidates_of_its_key_only():
    pool = SessionPool()
    first = session("a", "key")
    pool.give_back(first)
    assert pool.take("another") is None
    assert pool.take(None) is None
    assert pool.take("key") is first
    assert pool.take("key") is None


def test_the_one_that_ran_last_is_taken_and_the_oldest_makes_room():
    pool = SessionPool()
    old, new = session("old", "key"), session("new", "key")
    pool.give_back(old)
    pool.give_back(new)
    assert pool.oldest() is old
    assert pool.take("key") is new
    pool.forget(old)
    pool.forget(new)  # it is with a candidate
    assert pool.idle == []


def test_places_are_numbered(make_request):
    request = make_request({"session_key": "key"})
    made = WarmSession.for_first(request, runner=object())
    places = [made.next_place() for _ in range(3)]
    assert [place.number for place in places] == [0, 1, 2]
    assert {place.folder for place in places} == {made.folder}
    assert made.folder.endswith(f"sessions/{made.id}")
