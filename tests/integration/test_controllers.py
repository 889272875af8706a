"""Controllers, scheduler and kubelets at work on the embedded API server, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from integration.stage import Json, run_bounded, until
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.controllers.cluster import ClusterObjects, key_of
from moorage.controllers.plan import Plan
from moorage.controllers.triggers import FOLLOWED, WORKLOADS
from moorage.kube.client import KubeClient
from moorage.kube.decoding import watch_events
from moorage.kube.deep_json import decode
from moorage.kube.requests import MERGE, Request, list_, watch
from moorage.kube.resources import Resource, resource_for
from moorage.kube.timing import WallTimer
from moorage.local.cluster import LocalCluster
from moorage.local.controllers import Controllers
from moorage.local.creation import STORAGE_CLASS, apply_documents, create_missing
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.node_shapes import node_manifests

_CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class _Local:
    """A local cluster with some nodes, and what tests ask of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.client: KubeClient = cluster.client()

    async def create(self, kind: str, name: str, spec: Json, **metadata: Any) -> None:
        """Create an object."""
        of = _resource(kind)
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        await self.client.create(of, "default" if of.namespaced and kind != "Node" else "", body)

    async def patch(self, kind: str, name: str, **changes: Any) -> None:
        """Change an object by a merge patch."""
        await self.client.patch(_resource(kind), "default", name, changes, content_type=MERGE)

    async def patch_node(self, name: str, turn: str) -> None:
        """Give a node another label."""
        labels = {"metadata": {"labels": {"turn": turn}}}
        await self.client.patch(_resource("Node"), "", name, labels, content_type=MERGE)

    async def delete(self, kind: str, name: str, propagation: str = "Background") -> None:
        """Delete an object."""
        path = _resource(kind).item("default", name)
        await self.client.json(Request("DELETE", path, body={"propagationPolicy": propagation}))

    def all(self, kind: str) -> list[Json]:
        """The objects of a kind, straight from the server's store."""
        group, plural = _resource(kind).group, _resource(kind).plural
        collection = self.cluster.server.store.collection(f"{plural}.{group}".rstrip("."))
        return [stored.object() for stored in collection.all()]

    def running(self) -> int:
        """How many pods run and stay."""
        return sum(
            pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            for pod in self.all("Pod")
        )

    def has_image(self, image: str) -> bool:
        """Is there a pod of this image?"""
        return any(p["spec"]["containers"][0]["image"] == image for p in self.all("Pod"))

    def status(self, kind: str) -> Json:
        """The status of the only object of a kind."""
        (only,) = self.all(kind)
        found: Json = only.get("status") or {}
        return found


def _resource(kind: str) -> Resource:
    return resource_for(FOLLOWED[kind])


@asynccontextmanager
async def _local(nodes: int = 3, documents: list[Json] | None = None) -> AsyncIterator[_Local]:
    cluster = LocalCluster(load_config(_CONFIG, "test"), in_tree_registry(), DEFAULT_FEATURE_GATES)
    try:
        await cluster.start()
        given = [(one, "test") for one in [*node_manifests(nodes), *(documents or [])]]
        await apply_documents(cluster.client(), given, FOLLOWED.values())
        cluster.start_controllers()
        yield _Local(cluster)
    finally:
        await cluster.stop()


def _workload(replicas: int = 3, image: str = "nginx:1", **more: Any) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return {"replicas": replicas, "selector": selector, "template": template, **more}


def test_a_deployment_runs_scales_rolls_and_goes() -> None:
    async def work() -> None:
        async with _local() as local:
            await local.create("Deployment", "web", _workload())
            await until(lambda: local.status("Deployment").get("availableReplicas") == 3)
            await local.patch("Deployment", "web", spec={"replicas": 5})
            await until(lambda: local.status("Deployment").get("availableReplicas") == 5)
            await local.patch("Deployment", "web", spec=_workload(5, "nginx:2"))
            await until(lambda: local.status("Deployment").get("observedGeneration") == 3)
            await until(lambda: local.status("Deployment").get("updatedReplicas") == 5)
            await until(lambda: local.running() == 5)
            images = {pod["spec"]["containers"][0]["image"] for pod in local.all("Pod")}
            assert images >= {"nginx:2"}
            await local.delete("Deployment", "web")
            await until(lambda: not local.all("Pod"))
            assert local.all("ReplicaSet") == []

    run_bounded(work)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_each_way_to_delete_leaves_what_it_should(propagation: str) -> None:
    async def work() -> None:
        async with _local() as local:
            await local.create("Deployment", "web", _workload())
            await until(lambda: local.running() == 3)
            await local.delete("Deployment", "web", propagation)
            await until(lambda: not local.all("Deployment"))
            if propagation == "Orphan":
                (left,) = local.all("ReplicaSet")
                assert "ownerReferences" not in left["metadata"]
                assert local.running() == 3
            elif propagation == "Foreground":
                assert local.all("ReplicaSet") == []
                assert local.all("Pod") == []
            else:
                await until(lambda: not local.all("Pod"))

    run_bounded(work)


def test_a_watch_never_sees_a_rollout_beyond_its_limits() -> None:
    async def work() -> None:
        async with _local(10) as local:
            rolling = {"maxSurge": 2, "maxUnavailable": 1}
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
            await local.create("Deployment", "web", _workload(8, strategy=strategy))
            await until(lambda: local.status("Deployment").get("availableReplicas") == 8)
            listing = await local.client.page(list_(_resource("Pod")))
            version = listing.metadata.resource_version
            for number in range(2, 5):
                await local.patch("Deployment", "web", spec=_workload(8, f"nginx:{number}"))
                # The next change comes in the middle of this one.
                await until(partial(local.has_image, f"nginx:{number}"))
            await until(lambda: local.status("Deployment").get("updatedReplicas") == 8)
            await until(lambda: local.status("Deployment").get("replicas") == 8)
            await until(lambda: local.status("Deployment").get("availableReplicas") == 8)
            await until(lambda: len(local.all("Pod")) == local.running() == 8)
            await _replay(local, version, most=10, least=7)

    run_bounded(work)


async def _replay(local: _Local, version: str, *, most: int, least: int) -> None:
    """Everything that a watch sees from a version on, up to now."""
    pods = {f"before-{number}": (True, True) for number in range(8)}
    seen = 0
    last = next(local.cluster.server.store.pods.history.newest_first(int(version))).version
    request = watch(_resource("Pod"), resource_version=version, timeout_seconds=20)
    async with local.client.stream(request) as read:
        async for event in watch_events(read):
            if event.type == "BOOKMARK":
                continue
            pod = decode(event.object)
            name, state = pod["metadata"]["name"], pod["status"]
            if name not in pods and event.type != "ADDED":
                pods.pop(next(iter(pods)))  # one of those that were there before
                pods[name] = (True, True)
            going = "deletionTimestamp" in pod["metadata"] or event.type == "DELETED"
            ready = any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in state.get("conditions") or []
            )
            pods[name] = (not going, ready and not going)
            seen += 1
            assert sum(active for active, _ in pods.values()) <= most
            assert sum(available for _, available in pods.values()) >= least
            if int(pod["metadata"]["resourceVersion"]) >= last:
                break
    assert seen > 50


def test_pods_and_their_owners_from_files_stay_together() -> None:
    async def work() -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "old"}
        spec = _workload(2)
        workload = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "uid": "old"},
            "spec": spec,
        }
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"web-{number}",
                    "labels": {"app": "web"},
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": spec["template"]["spec"],
            }
            for number in range(2)
        ]
        async with _local(3, [*pods, workload]) as local:
            await until(lambda: local.status("ReplicaSet").get("readyReplicas") == 2)
            assert [pod["metadata"]["name"] for pod in local.all("Pod")] == ["web-0", "web-1"]

    run_bounded(work)


def test_stateful_sets_daemon_sets_and_jobs_reach_what_they_ask_for() -> None:
    async def work() -> None:
        async with _local() as local:
            await local.create("StatefulSet", "db", _workload(2))
            await until(lambda: local.status("StatefulSet").get("availableReplicas") == 2)
            await local.delete("StatefulSet", "db")
            spec = _workload()
            del spec["replicas"]
            await local.create("DaemonSet", "agent", spec)
            await until(lambda: local.status("DaemonSet").get("numberAvailable") == 3)
            await local.client.delete(_resource("Node"), "", "node-1")
            await until(lambda: local.status("DaemonSet").get("desiredNumberScheduled") == 2)
            await local.delete("DaemonSet", "agent")
            pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            await local.create("Job", "j", {"completions": 3, "template": {"spec": pod}})
            await until(lambda: bool(local.status("Job").get("completionTime")))
            assert local.status("Job")["succeeded"] == 3
            await local.delete("Job", "j")
            await until(lambda: not local.all("Pod"))

    run_bounded(work)


def test_a_budget_is_kept_up_to_date_and_evictions_follow_it() -> None:
    async def work() -> None:
        async with _local() as local:
            await local.create("Deployment", "web", _workload(2))
            budget = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
            await local.create("PodDisruptionBudget", "web", budget)
            await until(lambda: local.status("PodDisruptionBudget").get("currentHealthy") == 2)
            assert local.status("PodDisruptionBudget")["disruptionsAllowed"] == 1
            name = local.all("Pod")[0]["metadata"]["name"]
            path = _resource("Pod").item("default", name, "eviction")
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await local.client.json(Request("POST", path, body=body))
            assert local.status("PodDisruptionBudget")["disruptionsAllowed"] == 0
            await until(lambda: name not in [one["metadata"]["name"] for one in local.all("Pod")])
            await until(lambda: local.status("PodDisruptionBudget")["disruptionsAllowed"] == 1)

    run_bounded(work)


def test_a_stateful_set_gets_volumes_which_go_with_their_claims() -> None:
    async def work() -> None:
        async with _local() as local:
            await create_missing(local.client, [STORAGE_CLASS])
            wanted = {"requests": {"storage": "1Gi"}}
            claim = {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": wanted},
            }
            await local.create("StatefulSet", "db", _workload(2, volumeClaimTemplates=[claim]))
            await until(lambda: local.status("StatefulSet").get("availableReplicas") == 2)
            phases = [one["status"]["phase"] for one in local.all("PersistentVolumeClaim")]
            assert phases == ["Bound", "Bound"]
            await local.delete("StatefulSet", "db")
            for number in range(2):
                await local.delete("PersistentVolumeClaim", f"data-db-{number}")
            await until(lambda: not local.all("PersistentVolume"))

    run_bounded(work)


def test_what_was_bound_and_reserved_in_files_stays_so() -> None:
    def meta(name: str, uid: str, **more: Any) -> Json:
        return {"name": name, "uid": uid, **more}

    whose = {"namespace": "default", "name": "data", "uid": "c"}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    finalizers = ["resource.kubernetes.io/delete-protection"]
    pod = {"kind": "Pod", "name": "p", "uid": "p", "apiVersion": "v1", "controller": True}
    made = {"name": "gpu", "resourceClaimName": "p-gpu-x"}
    storage = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    documents: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": meta("v", "v"),
            "spec": {
                **storage,
                "hostPath": {"path": "/v"},
                "claimRef": whose,
                "persistentVolumeReclaimPolicy": "Delete",
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta("data", "c", annotations=bound),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "v",
                "storageClassName": "",
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": meta("p-gpu-x", "r", finalizers=finalizers, ownerReferences=[pod]),
            "spec": {"devices": {}},
            "status": {
                "allocation": {"devices": {}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta("p", "p"),
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            },
            "status": {"resourceClaimStatuses": [made]},
        },
    ]

    async def work() -> None:
        async with _local(1, documents) as local:
            await until(lambda: local.status("PersistentVolumeClaim").get("phase") == "Bound")
            assert local.status("PersistentVolume")["phase"] == "Bound"
            await local.cluster.settled(30)
            (claim,) = local.all("ResourceClaim")
            (there,) = local.all("Pod")
            uid = there["metadata"]["uid"]
            assert [one["uid"] for one in claim["status"]["reservedFor"]] == [uid]
            assert [one["uid"] for one in claim["metadata"]["ownerReferences"]] == [uid]
            assert there["status"]["resourceClaimStatuses"] == [made]
            await local.delete("Pod", "p")
            await until(lambda: not local.all("ResourceClaim"))

    run_bounded(work)


def test_every_namespace_has_an_account_that_comes_back() -> None:
    async def work() -> None:
        async with _local(0) as local:
            await until(lambda: len(local.all("ServiceAccount")) == 4)
            await local.delete("ServiceAccount", "default")
            await until(lambda: len(local.all("ServiceAccount")) == 4)
            await until(lambda: len(local.all("ConfigMap")) == 4)


def test_pods_from_files_find_the_runtime_class_that_comes_with_them() -> None:
    async def work() -> None:
        runtime_class = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m"}},
        }
        spec = {"runtimeClassName": "kata", "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
        async with _local(1, [pod, runtime_class]) as local:
            await until(lambda: local.running() == 1)
            (made,) = local.all("Pod")
            assert made["spec"]["overhead"] == {"cpu": "250m"}

    run_bounded(work)


class _SlowClock:
    """Whenever it is asked a twentieth of a second has passed, so planning seems to take long."""

    def __init__(self) -> None:
        self._timer = WallTimer()
        self._asked = 0

    def now(self) -> float:
        """A moment later than the last one."""
        self._asked += 1
        return self._timer.now() + self._asked / 20

    async def sleep(self, seconds: float) -> None:
        """As it really takes."""
        await self._timer.sleep(seconds)


def test_what_takes_long_to_plan_for_is_left_alone_for_a_while() -> None:
    async def work() -> None:
        async with _local() as local:
            planned: list[str] = []

            def note(_: ClusterObjects, obj: Json, __: float) -> Plan:
                planned.append(obj["metadata"]["labels"]["turn"])
                return Plan()

            machine = WORKLOADS._replace(
                followed={"Node": FOLLOWED["Node"]},
                affected=lambda _, __, after: [] if after is None else [key_of(after)],
                reconcile=note,
            )
            await local.patch_node("node-0", "0")
            for name in ("node-1", "node-2"):
                await local.client.delete(_resource("Node"), "", name)
            runner = Controllers(local.client, machine=machine, timer=_SlowClock())
            task = asyncio.create_task(runner.run())
            try:
                for turn in range(1, 100):
                    await local.patch_node("node-0", str(turn))
                await until(lambda: planned[-1:] == ["99"])
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert len(planned) < 20

    run_bounded(work)
