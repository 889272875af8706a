"""Listers: what changed since a generation can be asked, as long as it is remembered."""

from moorage.cluster import listers
from moorage.cluster.listers import Lister
from moorage.model.meta import ObjectMeta
from moorage.model.workloads import Namespace


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


def test_changes_are_told_by_name_whether_objects_came_changed_or_went() -> None:
    lister: Lister[Namespace] = Lister()
    assert lister.changes_since(0) == set()
    lister.put(namespace("a"))
    lister.put(namespace("b"))
    between = lister.generation
    lister.remove(namespace("a"))
    lister.put(namespace("c"))
    assert lister.changes_since(0) == {("", "a"), ("", "b"), ("", "c")}
    assert lister.changes_since(between) == {("", "a"), ("", "c")}
    assert lister.changes_since(lister.generation) == set()


def test_what_is_too_long_ago_is_not_told_at_all() -> None:
    lister: Lister[Namespace] = Lister()
    one, other = namespace("one"), namespace("other")
    lister.put(one)
    for _ in range(3 * listers._LONGEST_LOG):
        lister.put(other)
    recent = lister.generation - listers._LONGEST_LOG // 4
    assert lister.changes_since(0) is None
    assert lister.changes_since(recent) == {("", "other")}
    assert lister.changes_since(lister.generation) == set()
