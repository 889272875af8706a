"""The scheduler in virtual time decides, waits, binds and evicts as a live one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from berths import NeedsBerth
from co_scheduling import CoScheduling
from harbour_log import HarbourLog
from moorage.errors import ApiError
from moorage.framework.plugin import ApiPort, DeferringPlugin, PostBindPlugin, PreBindPlugin
from moorage.framework.status import Code, Status
from moorage.model.custom import CustomObject, custom_object
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from moorage.testing.virtual import VirtualScheduler

GROUP = {"pod-group": "crew", "min-available": "3"}


@contextmanager
def scheduler(*plugins: Any, **more: Any) -> Iterator[VirtualScheduler]:
    with closing(VirtualScheduler(*plugins, **more)) as made:
        yield made
        assert not made.faults


def berth(name: str, node_name: str, length: int) -> CustomObject:
    return custom_object(
        {
            "apiVersion": "harbour.example/v1",
            "kind": "Berth",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"node": node_name, "length": length},
        }
    )


def test_pods_find_their_nodes_and_wait_for_others() -> None:
    with scheduler() as made:
        made.add(make_node("n1", cpu="2"), make_pod("a", cpu="1"), make_pod("b", cpu="4"))
        assert (made.node_of("a"), made.node_of("b")) == ("n1", None)
        assert "Insufficient cpu" in made.message_of("b")
        made.add(make_node("n2", cpu="8"))
        assert made.node_of("b") == "n2"
        assert not made.pending


def test_less_important_pods_make_room() -> None:
    with scheduler() as made:
        made.add(make_node("n1", cpu="1"), make_pod("low", cpu="1"))
        made.add(make_pod("high", cpu="1", priority=10))
        made.advance(10)
        assert [pod.name for pod in made.evicted] == ["low"]
        assert made.node_of("high") == "n1"


class NeverDone(DeferringPlugin, PostBindPlugin):
    """Always has something left to write."""

    name = "NeverDone"
    has_work = True

    async def flush(self, api: ApiPort) -> list[str]:
        return []

    async def post_bind(self, pod: Pod, node_name: str) -> None:
        return None


def test_a_plugin_that_always_has_work_keeps_nobody_waiting() -> None:
    with scheduler(NeverDone) as made:
        made.add(make_node("n1"), make_pod("a"))
        made.advance(10)
        assert made.node_of("a") == "n1"


def test_a_group_waits_in_permit_until_it_is_complete_or_its_time_is_up() -> None:
    with scheduler(CoScheduling) as made:
        made.add(make_node("n1", cpu="4"))
        made.add(*(make_pod(f"crew-{i}", labels=GROUP, cpu=cpu) for i, cpu in enumerate("118")))
        made.advance(10)
        assert {pod.name for pod in made.waiting} == {"crew-0", "crew-1"}
        made.add(make_node("n2", cpu="16"))
        made.advance(10)
        assert {made.node_of(f"crew-{i}") for i in range(3)} == {"n1", "n2"}
        assert not made.waiting
    with scheduler(CoScheduling) as made:
        made.add(make_node("n1", cpu="4"))
        made.add(*(make_pod(f"crew-{i}", labels=GROUP, cpu=cpu) for i, cpu in enumerate("118")))
        made.advance(5)
        assert len(made.waiting) == 2
        made.advance(61)
        assert "rejected due to timeout" in made.messages["default/crew-1"]
        assert made.node_of("crew-0") is None


def test_custom_resources_wake_pods_and_plugins_write() -> None:
    with scheduler(NeedsBerth, HarbourLog) as made:
        made.add(make_node("n1"), berth("south", "n1", 80))
        made.add(make_pod("ship", labels={"ship-length": "100"}))
        assert "no berth of this length" in made.message_of("ship")
        made.add(berth("south", "n1", 120))
        made.advance(1)
        assert made.node_of("ship") == "n1"
        assert [event.content["reason"] for event in made.events] == ["Moored"]
        found = made.find("berths.v1.harbour.example", "south", "default")
        assert isinstance(found, CustomObject)
        assert found.content["status"]["ship"] == "ship"


class Refuses(PreBindPlugin):
    """Refuses once, then is refused by the API, then agrees."""

    name = "Refuses"
    answers: list[Any] = []

    async def pre_bind(self, pod: Any, node_name: str, api: Any) -> Status | None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Status) else None


def test_a_refused_binding_is_undone_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [Status(Code.UNSCHEDULABLE, ("not now",)), ApiError(409, "Conflict", "taken"), None]
    monkeypatch.setattr(Refuses, "answers", refusals)
    with scheduler(Refuses) as made:
        made.add(make_node("n1"), make_pod("a"))
        assert "not now" in made.message_of("a")
        made.advance(60)
        made.add(make_node("n2"))
        made.advance(60)
        assert made.node_of("a")
        assert not refusals


def test_faults_are_kept_for_the_test_to_see() -> None:
    def fail(*_: Any) -> None:
        raise ValueError("broken")

    broken = type("Broken", (PreBindPlugin,), {"name": "Broken", "pre_bind": fail})
    with closing(VirtualScheduler(broken)) as made:
        made.add(make_node("n1"), make_pod("a"))
        assert "ValueError: broken" in made.message_of("a")
        assert [(fault.plugin, fault.point) for fault in made.faults] == [("Broken", "PreBind")]
