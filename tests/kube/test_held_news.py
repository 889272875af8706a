"""News that is held back reaches handlers later, whole and in order."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.fake_api import run
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.informers import Informers
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import Node
from moorage.testing import make_node

KINDS = ("Node", "PersistentVolume")
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "follow", "hold", "remove", "replace", "listen", "catch up")),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    max_size=40,
)


class Heard:
    """A handler that remembers what it was told."""

    def __init__(self, log: list[Any], name: str) -> None:
        self._log, self._name = log, name

    def on_add(self, obj: ApiObject, /) -> None:
        self._log.append((self._name, "add", obj.metadata))

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        self._log.append((self._name, "update", old.metadata, new.metadata))

    def on_delete(self, old: ApiObject, /) -> None:
        self._log.append((self._name, "delete", old.metadata))

    def on_synced(self) -> None:
        self._log.append((self._name, "synced"))


def _informers() -> Informers:
    return Informers(KubeClient(Access(server="http://127.0.0.1:1"), env={}), KINDS)


def _object(number: int, version: int) -> ApiObject:
    # A later object of the same name is another one now and then.
    meta = ObjectMeta(name=f"o{number}", uid=f"u{version // 3}", resource_version=str(version))
    return ApiObject(metadata=meta)


async def _played(steps: list[Step], *, holding: bool) -> list[Any]:
    informers, log = _informers(), list[Any]()
    for kind_name in KINDS:
        informers.add_handler(kind_name, Heard(log, kind_name))
    for version, (what, kind, number) in enumerate(steps):
        store = informers.stores[KINDS[kind]]
        match what:
            case "put":
                store.put(_object(number, version))
            case "remove":
                store.remove(f"o{number}")
            case "replace":
                for _ in store.replacing([_object(n, version) for n in range(number)]):
                    pass
            case "listen":
                store.add_handler(Heard(log, f"{KINDS[kind]} {version}"))
            case "follow" if "Pod" not in informers.kinds:
                informers.add(["Pod"])
                informers.add_handler("Pod", Heard(log, "Pod"))
                informers.stores["Pod"].put(_object(number, version))
            case "hold" if holding:
                informers.hold()
            case "catch up" if holding:
                await informers.catch_up()
    await informers.catch_up()
    assert not informers.held
    return log


@settings(deadline=None)
@given(steps=STEPS)
def test_whoever_is_told_later_is_told_the_same(steps: list[Step]) -> None:
    async def scenario() -> None:
        at_once = await _played(steps, holding=False)
        assert await _played(steps, holding=True) == at_once

    run(scenario())


def test_nobody_is_told_before_it_is_time() -> None:
    async def scenario() -> None:
        informers, log = _informers(), list[Any]()
        informers.add_handler("Node", Heard(log, "Node"))
        informers.hold()
        informers.stores["Node"].put(make_node("a"))
        assert list(informers.stores["Node"].objects) == ["a"]
        assert not log
        await informers.catch_up()
        assert [what for _, what, _ in log] == ["add"]
        informers.stores["Node"].put(make_node("b"))
        assert [what for _, what, _ in log] == ["add", "add"]

    run(scenario())


def test_what_comes_while_much_is_told_waits_for_its_turn() -> None:
    async def scenario() -> None:
        informers, heard = _informers(), list[str]()
        store = informers.stores["Node"]
        store.add_handler(_Names(heard.append))
        informers.hold()
        names = [f"n{index:04}" for index in range(1000)]
        for name in names:
            store.put(make_node(name))
        telling = asyncio.create_task(informers.catch_up())
        while not heard:
            await asyncio.sleep(0)
        assert len(heard) < len(names), "others have to get a turn meanwhile"
        store.put(make_node("late"))
        await telling
        assert heard == [*names, "late"]

    run(scenario())


class _Names(Heard):
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def on_add(self, obj: ApiObject, /) -> None:
        assert isinstance(obj, Node)
        self._tell(obj.name)
