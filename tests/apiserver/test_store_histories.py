"""The store against a naive one: replaying history must lead to what is listed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.apiserver.history import (
    ADDED,
    DELETED,
    KEPT_SECONDS,
    History,
    Stored,
    StoredChange,
)
from moorage.apiserver.storage import Collection, Storage

NAMES = st.sampled_from(["a/x", "a/y", "b/x", "ab/x", "a-/x"])
STEPS = st.lists(st.tuples(st.sampled_from("cud"), NAMES, st.integers(0, 2)), max_size=40)


def apply(store: Storage, pods: Collection, step: tuple[str, str, int]) -> None:
    action, key, value = step
    present = pods.items.get(key)
    obj: dict[str, Any] = {"metadata": {"name": key, "labels": {"v": str(value)}}}
    if action == "c" and present is None:
        store.create(pods, key, obj)
    elif action == "u" and present is not None:
        store.update(pods, present, obj)
    elif action == "d" and present is not None:
        store.delete(pods, present)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_past_state_can_be_listed_and_watched_from(
    steps: list[tuple[str, str, int]],
) -> None:
    store = Storage()
    pods = store.pods
    states: dict[int, dict[str, Stored]] = {store.version: {}}
    for step in steps:
        apply(store, pods, step)
        states[store.version] = dict(pods.items)
    final = {key: pods.items[key] for key in sorted(pods.items)}
    assert [stored.key for stored in pods.all()] == list(final)
    for namespace in ("a", "b", "ab", "a-"):
        expected = [s for k, s in final.items() if k.startswith(f"{namespace}/")]
        assert pods.within(namespace) == expected
    for version, state in states.items():
        assert pods.at_version(version) == [state[key] for key in sorted(state)]
        replayed = dict(state)
        for change in pods.history.read(pods.history.position_after(version), 1000):
            assert change.previous == replayed.get(change.stored.key)
            if change.type == DELETED:
                del replayed[change.stored.key]
            else:
                replayed[change.stored.key] = change.stored
        assert replayed == pods.items


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 12))
def test_a_short_history_never_skips_a_change(
    steps: list[tuple[str, str, int]], length: int
) -> None:
    store = Storage(history_changes=length)
    history = store.pods.history
    versions: list[int] = []
    for step in steps:
        before = store.version
        apply(store, store.pods, step)
        versions += [store.version] * (store.version > before)
    position = history.position_after(history.compacted)
    kept = [change.stored.version for change in history.read(position, 1000)]
    assert kept == [version for version in versions if version > history.compacted]
    assert len(kept) <= length


def test_small_objects_count_in_history_with_what_they_take_beside_their_bytes() -> None:
    store = Storage(history_bytes=100_000)
    for number in range(1_000):
        store.create(store.pods, f"a/{number}", {"metadata": {"name": str(number)}})
    assert len(store.pods.history.read(store.pods.history.position_after(store.version - 50), 99))
    assert store.version - store.pods.history.compacted <= 125


def test_changes_that_are_old_make_room_before_there_are_too_many() -> None:
    now = 0.0
    history = History(max_changes=10_000, max_bytes=400_000, clock=lambda: now)

    def append(version: int) -> None:
        stored = Stored(f"a/{version}", version, b"x" * 200, {}, (), "")
        history.append(StoredChange(ADDED, version, stored, None))

    for version in range(100):
        append(version)
    now = KEPT_SECONDS + 1
    append(100)
    assert history.compacted == 24, "old ones go, a quarter at once, once they fill a quarter"
    now += KEPT_SECONDS / 2
    for version in range(101, 300):
        append(version)
    assert history.position_after(100) == 101, "a watch that was away for a moment reads on"
    now += KEPT_SECONDS * 2
    while len(history.read(history.position_after(history.compacted), 10_000)) > 100:
        version += 1
        append(version)
    assert history.position_after(version) == history.end


def test_the_states_of_an_object_share_what_has_not_changed() -> None:
    store = Storage()
    owner = {"uid": "owner"}
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "uid": "u", "labels": {"app": "web"}, "ownerReferences": [owner]},
    }
    first = store.create(store.pods, "n/a", obj)
    second = store.update(store.pods, first, first.object() | {"spec": {"nodeName": "node"}})
    assert (second.labels, second.owners) == ({"app": "web"}, ("owner",))
    assert second.labels is first.labels
    assert second.owners is first.owners
    assert second.uid is first.uid
    relabelled = second.object()
    relabelled["metadata"]["labels"]["app"] = "db"
    assert store.update(store.pods, second, relabelled).labels == {"app": "db"}
    assert first.labels == {"app": "web"}


def test_history_holds_a_deleted_object_once_and_shows_it_under_the_version_of_its_removal() -> (
    None
):
    store = Storage()
    created = store.create(store.pods, "n/a", {"metadata": {"name": "a", "uid": "u"}})
    gone = store.delete(store.pods, created)
    change = store.pods.history.read(store.pods.history.end - 1, 1)[0]
    assert change.type == DELETED
    assert change.last is created
    assert change.stored == gone
    assert gone.version == store.version == created.version + 1
    assert gone.object()["metadata"]["resourceVersion"] == str(store.version)
