"""An extender that does not answer for a while: only the pod it is asked about waits.

The extender is served by the event loop that the scheduler runs in, so that it can hear and answer
only if that loop goes on.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from integration.stage import Json, LiveStage, at_work, run_bounded, until
from kube.answering import Answering
from moorage.apiserver.server import ApiServer
from moorage.config import load_config
from moorage.kube.explainer import Explainer
from moorage.kube.live import LiveScheduler
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for
from moorage.ledger import Ledger
from moorage.log_fields import V
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

PATIENCE = "30s"
"""Longer than any of this takes; a loop that stood still would stand still for so long."""


class Extender(Answering):
    """Agrees to everything at once, but thinks about pods whose names begin with "slow"."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.thinks = asyncio.Event()
        self.decides = asyncio.Event()
        self.binds = asyncio.Event()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with super().served():
            try:
                yield
            finally:
                self.decides.set()
                self.binds.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = request.path.strip("/")
        body = json.loads(await request.read())
        if verb == "bind":
            await self.binds.wait()
            return web.json_response({"Error": "the node is taken"})
        name = body["Pod"]["metadata"]["name"]
        self.asked.append(f"{verb} {name}")
        if name.startswith("slow"):
            self.thinks.set()
            await self.decides.wait()
        return web.json_response(_agreement(verb, body))


def _agreement(verb: str, body: Json) -> Any:
    match verb:
        case "filter":
            return {"NodeNames": body["NodeNames"]}
        case "prioritize" | "weigh":
            return [{"Host": host, "Score": 5} for host in body["NodeNames"]]
        case _:
            return {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}


def configured(url: str, *extenders: Json) -> str:
    """A configuration with extenders, all at one address."""
    agreed = {"urlPrefix": url, "nodeCacheCapable": True, "httpTimeout": PATIENCE, "weight": 1}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{**agreed, **extender} for extender in extenders],
    }
    return json.dumps(document)


class _Patient(LiveScheduler):
    """One whose plugins-to-be know all they need only when an extender is being asked."""

    def __init__(self, *parts: Any, asked: asyncio.Event) -> None:
        super().__init__(*parts)
        self._asked = asked

    async def _follow_kinds(self, kinds: Iterable[str], timeout: float) -> None:
        await super()._follow_kinds(kinds, timeout)
        await self._asked.wait()


class Stage(LiveStage):
    """With an extender that the scheduler asks."""

    def __init__(self, server: ApiServer, extender: Extender, *extenders: Json) -> None:
        self.extender = extender
        live = partial(_Patient, asked=extender.thinks)
        super().__init__(server, configured(extender.url, *extenders), live)

    async def thinking(self) -> None:
        """Wait until the extender thinks about a pod."""
        await self.extender.thinks.wait()

    def heard_of(self, kind: str) -> set[str]:
        """What the informers know by name."""
        return {obj.metadata.name for obj in self.live.informers.stores[kind].objects.values()}

    def is_assumed(self, pod: str) -> bool:
        """Does the engine still wait for news of a pod it has placed?"""
        known = self.scheduler.state.listers.of(Pod).get(pod, "default")
        return known is not None and self.scheduler.state.is_assumed(known)

    def knows_on_node(self, pod: str) -> bool:
        """Has the engine heard that a pod is bound?"""
        known = self.scheduler.state.listers.of(Pod).get(pod, "default")
        return known is not None and bool(known.spec.node_name)


def run(test: Callable[[Stage], Awaitable[None]], *extenders: Json) -> None:
    async def work() -> None:
        extender = Extender()
        verbs = extenders or ({"filterVerb": "filter"},)
        async with (
            extender.served(),
            at_work(lambda server: Stage(server, extender, *verbs)) as made,
        ):
            await test(made)

    run_bounded(work)


def test_a_pod_decided_before_is_bound_meanwhile_and_confirmed_afterwards() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.create_pod("quick")
        await stage.create_pod("slow")
        await stage.thinking()
        await until(lambda: stage.node_of("quick") == "n1")
        await until(lambda: _bound_in_store(stage, "quick"))
        assert stage.is_assumed("quick"), "the attempt goes on with what it began with"
        stage.extender.decides.set()
        await until(lambda: stage.knows_on_node("quick"))
        assert not stage.is_assumed("quick")
        await until(lambda: stage.node_of("slow") == "n1")
        assert stage.extender.asked == ["filter quick", "filter slow"]

    run(test)


def _bound_in_store(stage: Stage, name: str) -> bool:
    pod = stage.live.informers.stores["Pod"].objects.get(f"default/{name}")
    return isinstance(pod, Pod) and bool(pod.spec.node_name)


def test_news_that_comes_meanwhile_is_applied_afterwards_and_none_is_lost() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1", cpu="2")
        await stage.create_pod("slow")
        await stage.thinking()
        # The roomier node would be taken if it were known.
        await stage.create_node("n2", cpu="64")
        await stage.create_pod("large", cpu="8")
        for index in range(300):
            await stage.create_node(f"m{index}")
        for index in range(0, 300, 2):
            await stage.client.delete(resource_for("Node"), "", f"m{index}")
        left = {"n1", "n2", *(f"m{index}" for index in range(1, 300, 2))}
        await until(lambda: stage.heard_of("Node") == left and "large" in stage.heard_of("Pod"))
        assert stage.nodes == {"n1"}
        stage.extender.decides.set()
        await until(lambda: stage.nodes == left)
        await until(lambda: stage.node_of("slow") == "n1")
        await until(lambda: stage.node_of("large") == "n2")

    run(test)


def test_a_pod_that_found_no_node_meanwhile_is_tried_again_with_the_one_that_came() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1", cpu="1")
        await stage.create_pod("large", cpu="8")
        await until(lambda: bool(stage.scheduler.queue.view.pending_pods().unschedulable))
        await stage.create_pod("slow")
        await stage.thinking()
        await stage.create_node("n2", cpu="64")
        await until(lambda: stage.heard_of("Node") == {"n1", "n2"})
        stage.extender.decides.set()
        await until(lambda: stage.node_of("large") == "n2")

    run(test)


@pytest.mark.parametrize("extenders", [1, 2])
def test_points_are_waited_for_too(extenders: int) -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.begin_with("n2")
        await stage.create_pod("slow")
        await stage.thinking()
        await until(lambda: len(stage.extender.asked) == extenders)
        await stage.create_node("n3")
        await until(lambda: "n3" in stage.heard_of("Node"))
        assert stage.nodes == {"n1", "n2"}
        stage.extender.decides.set()
        await until(lambda: stage.node_of("slow") in ("n1", "n2"))

    verbs = ({"prioritizeVerb": "prioritize"}, {"prioritizeVerb": "weigh"})
    run(test, *verbs[:extenders])


def test_victims_are_waited_for_too() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.create_pod("victim", cpu="4", terminationGracePeriodSeconds=0)
        await until(lambda: stage.knows_on_node("victim"))
        await stage.create_pod("slow", cpu="4", priorityClassName="system-node-critical")
        await stage.thinking()
        assert stage.extender.asked[-1] == "preempt slow"
        assert stage.node_of("victim") == "n1"
        stage.extender.decides.set()
        await until(lambda: stage.node_of("slow") == "n1")
        assert not stage.node_of("victim")

    run(test, {"preemptVerb": "preempt"})


class _Said(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.said = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.said.set()


def test_a_binding_that_fails_meanwhile_is_undone_afterwards() -> None:
    async def test(stage: Stage) -> None:
        listener = _Said("Failed to bind pod")
        logger = logging.getLogger("moorage")
        logger.addHandler(listener)
        logger.setLevel(V(1))
        try:
            await stage.begin_with("n1")
            await stage.create_pod("quick")
            await stage.create_pod("slow")
            await stage.thinking()
            stage.extender.binds.set()
            await listener.said.wait()
        finally:
            logger.setLevel(logging.NOTSET)
            logger.removeHandler(listener)
        await _several_turns()
        assert stage.is_assumed("quick"), "its place must not come free in the middle"
        stage.extender.decides.set()
        await until(lambda: not stage.is_assumed("quick"))

    run(test, {"filterVerb": "filter", "bindVerb": "bind"})


async def _several_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_explanations_and_other_configurations_wait_for_the_decision() -> None:
    async def test(stage: Stage) -> None:
        explainer = Explainer(stage.live)
        await stage.begin_with("n1")
        await stage.create_pod("slow")
        await stage.thinking()
        config = load_config(configured("http://127.0.0.1:1"), "test")
        explaining = asyncio.create_task(explainer.node("n1"))
        changing = asyncio.create_task(stage.live.reload(config, in_tree_registry()))
        assert explainer.stats().nodes == 1, "what needs no look into the cycle is told at once"
        await _several_turns()
        assert not explaining.done()
        assert not changing.done()
        assert stage.scheduler.cycle.extenders
        stage.extender.decides.set()
        assert (await explaining).node == "n1"
        await changing
        assert not stage.scheduler.cycle.extenders
        await stage.create_pod("slow-but-not-asked-about")
        await until(lambda: stage.node_of("slow-but-not-asked-about") == "n1")
        explainer.close()

    run(test)


def test_a_configuration_that_is_ready_in_the_middle_of_an_attempt_waits_for_its_end() -> None:
    async def test(stage: Stage) -> None:
        config = load_config(configured("http://127.0.0.1:1"), "test")
        await stage.begin_with("n1")
        changing = asyncio.create_task(stage.live.reload(config, in_tree_registry()))
        await stage.create_pod("slow")
        await stage.thinking()
        await _several_turns()
        assert stage.scheduler.cycle.extenders
        assert not changing.done()
        stage.extender.decides.set()
        await changing
        assert not stage.scheduler.cycle.extenders
        await until(lambda: stage.node_of("slow") == "n1")

    run(test)


def _ends(end: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.create_pod("quick")
        await stage.create_pod("slow")
        await stage.thinking()
        await end(stage)
        assert not stage.extender.decides.is_set(), "nobody waited for the answer"
        assert stage.node_of("quick") == "n1", "what was decided is carried out"
        stage.extender.decides.set()
        await _several_turns()
        assert not stage.node_of("slow")
        assert not stage.stored("slow")["status"].get("conditions"), "nobody decided about it"

    run(test)


def test_it_stops_without_waiting_for_the_answer() -> None:
    async def end(stage: Stage) -> None:
        stage.live.stop()
        await stage.work

    _ends(end)


def test_it_can_be_cancelled_without_the_answer() -> None:
    async def end(stage: Stage) -> None:
        stage.work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stage.work

    _ends(end)


def test_one_that_may_not_write_any_more_ends_at_once() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.create_pod("slow")
        await stage.thinking()
        stage.live.abandon()
        await stage.work
        assert not stage.extender.decides.is_set()

    run(test)


def test_whoever_follows_decisions_hears_of_those_made_with_extenders() -> None:
    async def test(stage: Stage) -> None:
        ledger = Ledger(1 << 20)
        stage.scheduler.record(ledger.recorder)
        explainer = Explainer(stage.live, ledger)
        follower, _ = await explainer.follow()
        await stage.begin_with("n1")
        await stage.create_pod("slow")
        await stage.thinking()
        stage.extender.decides.set()
        await follower.news.wait()
        (told,) = follower.take(10)
        assert (told.pod, told.node) == ("default/slow", "n1")
        explainer.close()

    run(test)


def test_many_pods_find_their_places_while_the_cluster_changes() -> None:
    async def test(stage: Stage) -> None:
        pods, nodes, room = 60, 6, 12

        async def change_nodes() -> None:
            for step in range(100):
                body = {"metadata": {"labels": {"step": str(step)}}}
                name = f"n{step % nodes}"
                await stage.client.patch(resource_for("Node"), "", name, body, content_type=MERGE)

        for index in range(nodes):
            await stage.begin_with(f"n{index}", cpu=str(room))
        changing = asyncio.create_task(change_nodes())
        for index in range(pods):
            await stage.create_pod(f"p{index}")
        await changing
        await until(lambda: all(stage.knows_on_node(f"p{index}") for index in range(pods)))
        taken = Counter(stage.node_of(f"p{index}") for index in range(pods))
        assert max(taken.values()) <= room
        labels = {node.metadata.labels["step"] for node in stage.scheduler.state.nodes.nodes}
        assert labels == {str(step) for step in range(100 - nodes, 100)}

    run(test, {"filterVerb": "filter", "prioritizeVerb": "prioritize"}, {"filterVerb": "filter"})


def test_pods_are_decided_one_after_the_other() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin_with("n1")
        await stage.create_pod("slow-1")
        await stage.thinking()
        await stage.create_pod("slow-2")
        await until(lambda: "slow-2" in stage.heard_of("Pod"))
        await _several_turns()
        assert stage.extender.asked == ["filter slow-1"]
        stage.extender.decides.set()
        await until(lambda: stage.node_of("slow-2") == "n1")
        assert stage.extender.asked == ["filter slow-1", "filter slow-2"]

    run(test)
