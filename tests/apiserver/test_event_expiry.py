"""Events do not pile up."""

from moorage.apiserver.deletion import EventExpiry
from moorage.apiserver.storage import Storage


def add(store: Storage, name: str) -> None:
    key = f"default/{name}"
    store.create(store.collection("events"), key, {"metadata": {"name": name}})


def test_events_go_after_an_hour_unless_they_are_written_again() -> None:
    store, now = Storage(), [0.0]
    expiry = EventExpiry(store, lambda: now[0])
    events = store.collection("events")
    add(store, "old")
    add(store, "renewed")
    expiry.sweep()
    now[0] = 1800.0
    store.update(
        events, events.items["default/renewed"], {"metadata": {"name": "renewed"}, "count": 2}
    )
    add(store, "new")
    now[0] = 3600.0
    assert expiry.sweep() == 1
    assert list(events.items) == ["default/renewed", "default/new"]
    now[0] = 7300.0
    assert expiry.sweep() == 2


def test_the_oldest_go_when_there_are_too_many() -> None:
    store = Storage()
    for number in range(10):
        add(store, f"e{number}")
    assert EventExpiry(store, lambda: 0.0, max_events=4).sweep() == 6
    assert list(store.collection("events").items) == [f"default/e{n}" for n in range(6, 10)]
