"""Which events are remembered for those who look at an object."""

from moorage.kube import recent_events
from moorage.kube.event_series import EventKey, ObjectReference
from moorage.kube.recent_events import RecentEvents


def key(name: str, reason: str = "FailedScheduling", version: str = "1") -> EventKey:
    about = ObjectReference("Pod", "harbour", name, resource_version=version)
    return EventKey("Warning", "Scheduling", reason, "default-scheduler", "here", about, None)


def test_equal_events_are_counted_and_the_newest_come_first() -> None:
    events = RecentEvents()
    events.note(key("tug"), "no quay", 10.0)
    events.note(key("tug", "Scheduled"), "at quay-1", 20.0)
    # Every change of the pod gives it another version: people see the same event.
    events.note(key("tug", version="2"), "no quay", 30.0)
    first, second = events.about("Pod", "harbour", "tug")
    assert (first.note, first.count, first.first, first.last) == ("no quay", 2, 10.0, 30.0)
    assert (second.reason, second.count) == ("Scheduled", 1)
    assert events.about("Node", "harbour", "tug") == ()


def test_of_many_events_and_objects_the_newest_are_kept() -> None:
    events = RecentEvents()
    for number in range(recent_events.MOST_EVENTS + 5):
        events.note(key("tug"), f"try {number}", float(number))
    kept = events.about("Pod", "harbour", "tug")
    assert len(kept) == recent_events.MOST_EVENTS
    assert kept[0].note == f"try {recent_events.MOST_EVENTS + 4}"
    events.note(key("dinghy"), "no quay", 0.0)
    events.note(key("tug"), "again", 1.0)
    for number in range(recent_events.MOST_OBJECTS - 1):
        events.note(key(f"ship-{number}"), "no quay", 2.0)
    assert events.about("Pod", "harbour", "dinghy") == ()
    assert events.about("Pod", "harbour", "tug")[0].note == "again"
