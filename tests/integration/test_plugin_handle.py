"""What a plugin reaches through its handle, in a whole cluster with its API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from berths import BERTHS, NeedsBerth
from harbour_log import HarbourLog
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.errors import ApiError, ConfigError
from moorage.framework.cluster_events import ActionType, EventRegistration, on
from moorage.framework.plugin import (
    NodeFilterPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from moorage.framework.status import Reason
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for
from moorage.local.cluster import LocalCluster
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.node_shapes import node_manifests

JOBS, CRON_JOBS = "jobs.v1.batch", "cronjobs.v1.batch"
DEFINITION = Path(__file__).parents[2] / "examples" / "plugins" / "berths.yaml"
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: harbour
  plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}
"""


def job(name: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {}}


class EveryVerb(ReservePlugin, PreBindPlugin, PostBindPlugin):
    """Does everything that a client can do, and notes what came of it."""

    name = "EveryVerb"
    looks_up = (JOBS, CRON_JOBS)

    def may_take_long(self, pod: Pod) -> bool:
        return True  # so the attempt has a thread of its own

    def reserve(self, pod: Pod, node_name: str) -> None:
        self.cycle_state(pod)["node"] = node_name
        self.handle.event(pod, "Reserved", f"on {node_name}")
        self.handle.run_later(self.leave_note(node_name))

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Nothing to take back."""

    async def leave_note(self, node_name: str) -> None:
        await self.handle.client.patch("Node", node_name, {"metadata": {"labels": {"used": "yes"}}})

    async def pre_bind(self, pod: Pod, node_name: str, api: object) -> None:
        client, at = self.handle.client, pod.namespace
        found = self.cycle_state(pod)
        found["job"] = self.handle.listers.of(JOBS).get("same", at)
        found["cron job"] = self.handle.listers.of(CRON_JOBS).get("same", at)
        found["created"] = (await client.create(JOBS, job("made"), at))["kind"]
        labels = {"metadata": {"labels": {"by": self.handle.profile_name}}}
        await client.patch(JOBS, "made", labels, at)
        found["labels"] = (await client.get(JOBS, "made", at))["metadata"]["labels"]
        chosen = await client.list(JOBS, at, labels={"by": "harbour"})
        found["listed"] = [one["metadata"]["name"] for one in chosen]
        found["pods"] = [(one["kind"], one["apiVersion"]) for one in await client.list(Pod)]
        seen = []
        async for event in client.watch(JOBS, at, labels={"by": "harbour"}):
            seen.append((event.type, event.object["metadata"]["name"]))
            if event.type == "DELETED":
                break
            await client.delete(JOBS, "made", at)
        found["seen"] = seen
        try:
            await client.get(JOBS, "made", at)
        except ApiError as error:
            found["gone"] = error.is_not_found

    async def post_bind(self, pod: Pod, node_name: str) -> None:
        self.handle.event(pod, "Noted", "all was noted", type_="Warning", action="Noting")
        self.handle.listers.shared(dict, dict)["found"] = dict(self.cycle_state(pod))


def config_of(plugin: type[Plugin]) -> Any:
    return load_config(PROFILE.format(name=plugin.name), "test")


async def has(condition: Any) -> Any:
    """Wait until an awaitable question is answered with something."""
    async with asyncio.timeout(20):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
    return found


async def create(client: KubeClient, kind: str, body: dict[str, Any]) -> None:
    await client.create(resource_for(kind), "" if kind == "Node" else "default", body)


def test_a_plugin_does_everything_in_a_cluster() -> None:
    async def scenario() -> None:
        registry = in_tree_registry()
        registry.register(EveryVerb)
        cluster = LocalCluster(config_of(EveryVerb), registry, DEFAULT_FEATURE_GATES)
        await cluster.start()
        try:
            client = cluster.client()
            for node in node_manifests(1):
                await create(client, "Node", dict(node))
            await create(client, JOBS, job("same"))
            await create(client, CRON_JOBS, {**job("same"), "kind": "CronJob"})
            pod = {
                "metadata": {"name": "ship"},
                "spec": {
                    "schedulerName": "harbour",
                    "containers": [{"name": "main", "image": "main"}],
                },
            }
            assert cluster.live is not None
            handle = cluster.live.scheduler.handle
            await has(lambda: asyncio.sleep(0, len(handle.listers.of(CRON_JOBS))))
            await create(client, "Pod", pod)
            notes: dict[str, Any] = handle.listers.shared(dict, dict)
            await has(lambda: asyncio.sleep(0, "found" in notes))
            found = notes["found"]
            assert found.pop("job").kind == "Job"
            assert found.pop("cron job").kind == "CronJob"
            assert found == {
                "node": "node-0",
                "created": "Job",
                "labels": {"by": "harbour"},
                "listed": ["made"],
                "pods": [("Pod", "v1")],
                "seen": [("ADDED", "made"), ("DELETED", "made")],
                "gone": True,
            }
            assert handle.rest_config is not None
            assert handle.rest_config.server == cluster.server.url

            async def events() -> list[Any]:
                listed = await handle.client.list("Event", "default")
                return [one for one in listed if one["reason"] == "Noted"]

            async def reserved() -> bool:
                listed = await handle.client.list("Event", "default")
                return "on node-0" in [one["note"] for one in listed]

            await has(reserved)
            (event,) = await has(events)
            assert event["reportingController"] == "harbour"
            assert (event["type"], event["action"]) == ("Warning", "Noting")
            node = await handle.client.get("Node", "node-0")
            assert node["metadata"]["labels"]["used"] == "yes"
            # What was noted about the pod ends with it.
            bound = Pod(metadata=handle.listers.of(Pod).get("ship", "default").metadata)  # type: ignore[union-attr]
            assert handle.cycle_states.of(bound, EveryVerb.name) == {}
        finally:
            await cluster.stop()

    asyncio.run(scenario())


def test_the_examples_work_with_a_custom_resource_in_a_local_cluster() -> None:
    async def scenario() -> None:
        registry = in_tree_registry()
        registry.register(NeedsBerth)
        registry.register(HarbourLog)
        config = load_config(
            PROFILE.format(name="NeedsBerth").replace("}]", "}, {name: HarbourLog}]"), "test"
        )
        definition = next(yaml.safe_load_all(DEFINITION.read_text()))
        cluster = LocalCluster(config, registry, DEFAULT_FEATURE_GATES)
        await cluster.start(documents=[(definition, "test")])
        try:
            client = cluster.client()
            for node in node_manifests(2):
                await create(client, "Node", dict(node))
            labels = {"ship-length": "80"}
            ship = {
                "metadata": {"name": "ship", "labels": labels},
                "spec": {
                    "schedulerName": "harbour",
                    "containers": [{"name": "main", "image": "main"}],
                },
            }
            await create(client, "Pod", ship)
            assert cluster.live is not None
            api = cluster.live.scheduler.handle.client

            async def refused() -> bool:
                status = (await api.get(Pod, "ship", "default"))["status"]
                return "2 node(s) had no berth of this length" in str(status)

            await has(refused)
            berth = {
                "apiVersion": "harbour.example/v1",
                "kind": "Berth",
                "metadata": {"name": "north"},
                "spec": {"node": "node-1", "length": 100},
            }
            await create(client, BERTHS, berth)

            async def status() -> Any:
                return (await api.get(BERTHS, "north", "default")).get("status")

            assert await has(status) == {"ship": "ship", "scheduler": "harbour"}
            assert (await api.get(Pod, "ship", "default"))["spec"]["nodeName"] == "node-1"
        finally:
            await cluster.stop()

    asyncio.run(scenario())


class NamesNoKind(NodeFilterPlugin):
    """Asks for a kind in a way that nobody understands."""

    name = "NamesNoKind"
    looks_up: Any = ("Berth",)

    def filter_node(self, pod: Pod, node: object) -> Reason | None:
        return None


class NamesText(NamesNoKind):
    name = "NamesText"
    looks_up = "jobs.v1.batch"


class WaitsForNoKind(NamesNoKind):
    """The same in an event registration."""

    name = "WaitsForNoKind"
    looks_up = ()

    def events_to_register(self) -> list[EventRegistration]:
        return [on("Berth", ActionType.ADD)]


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        (
            NamesNoKind,
            "plugin NamesNoKind: looks_up: 'Berth' is neither a type of moorage.model nor "
            "<plural>.<version>.<group>",
        ),
        (
            NamesText,
            "plugin NamesText: looks_up: expected a tuple of kinds, got 'jobs.v1.batch'",
        ),
        (
            WaitsForNoKind,
            "plugin WaitsForNoKind: events_to_register: 'Berth' is not <plural>.<version>.<group>",
        ),
    ],
)
def test_a_kind_that_cannot_be_watched_is_refused_by_name(
    plugin: type[Plugin], sentence: str
) -> None:
    async def scenario() -> None:
        registry = in_tree_registry()
        registry.register(plugin)
        cluster = LocalCluster(config_of(plugin), registry, DEFAULT_FEATURE_GATES)
        try:
            await cluster.start()
        finally:
            await cluster.stop()

    with pytest.raises(ConfigError) as raised:
        asyncio.run(scenario())
    assert str(raised.value) == sentence
