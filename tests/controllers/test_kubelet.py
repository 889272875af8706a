"""Kubelets in virtual time: what becomes of pods that are bound, and of nodes."""

from collections.abc import Iterable
from typing import Any

import pytest

from controllers.stage import START
from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.kubelet import KubeletOptions, Kubelets, duration_seconds
from moorage.controllers.objects import Json, condition, meta, phase, seconds, spec, status
from moorage.controllers.plan import CreateObject, DeleteObject, PatchObject, Write
from moorage.model.labels import selector_from_labels
from moorage.model.meta import merge_patch

_FAILS_SOON = {"moorage.io/finish-after": "7s", "moorage.io/exit-code": "3"}


class _Cluster:
    """Objects, a clock, and kubelets whose writes are carried out at once."""

    def __init__(self, **options: Any) -> None:
        self.kubelets = Kubelets(KubeletOptions(**{"lease_seconds": 0.0, **options}))
        self.objects = ClusterObjects()
        self.now = START
        self.due: dict[Key, float] = {}
        self.writes: list[Write] = []
        self._version = 0

    def node(self, name: str = "n1", **more: Any) -> Json:
        metadata = {"name": name, "uid": f"uid-of-{name}", **more.pop("metadata", {})}
        self.store({"apiVersion": "v1", "kind": "Node", "metadata": metadata, **more})
        return self.get("Node", name)

    def pod(self, name: str = "a", **more: Any) -> Json:
        given = {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i"}],
            **more.pop("spec", {}),
        }
        metadata = {"name": name, "namespace": "d", "uid": f"uid-of-{name}", **more}
        state = {"phase": "Pending"}
        self.store(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": given,
                "status": state,
            }
        )
        return self.get("Pod", name)

    def get(self, kind: str, name: str) -> Json:
        found = self.objects.get(kind, "d" if kind == "Pod" else "", name)
        assert found is not None
        return found

    def change(self, obj: Json, **changes: Any) -> None:
        self.store(merge_patch(obj, changes))

    def store(self, obj: Json) -> None:
        """An object is there in this form; who looks at it does so."""
        self._version += 1
        obj = {**obj, "metadata": {**meta(obj), "resourceVersion": str(self._version)}}
        before = self.objects.put(obj)
        if obj["kind"] in ("Node", "Pod"):
            self._look(list(self.kubelets.affected(self.objects, before, obj)))

    def remove(self, kind: str, name: str) -> None:
        old = self.objects.remove(key_of(self.get(kind, name)))
        self._look(self.kubelets.affected(self.objects, old, None))

    def pass_seconds(self, lasting: float) -> None:
        """Time passes, and whatever is due meanwhile happens in its order."""
        until = self.now + lasting
        while self.due and (moment := min(self.due.values())) <= until:
            self.now = moment
            self._look([key for key, due in self.due.items() if due <= moment])
        self.now = until

    def _look(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.due.pop(key, None)
            obj = self.objects.get(*key)
            if obj is None:
                continue
            plan = self.kubelets.reconcile(self.objects, obj, self.now)
            if plan.again_in is not None:
                self.due[key] = self.now + plan.again_in
            for write in plan.writes:
                self._apply(write)

    def _apply(self, write: Write) -> None:
        self.writes.append(write)
        match write:
            case CreateObject(_, namespace, body, _):
                uid = f"uid-{len(self.writes)}"
                self.store({**body, "metadata": {**meta(body), "namespace": namespace, "uid": uid}})
            case PatchObject(key, changes, _, _):
                found = self.objects.get(*key)
                assert found is not None
                self.store(merge_patch(found, changes))
            case DeleteObject(key, _, grace, _):
                assert grace == 0
                self.remove(key.kind, key.name)


@pytest.fixture
def cluster() -> _Cluster:
    found = _Cluster()
    found.node()
    return found


def _container(pod: Json) -> Json:
    (only,) = status(pod)["containerStatuses"]
    assert isinstance(only, dict)
    return only


def _is_ready(obj: Json) -> bool:
    return (condition(obj, "Ready") or {}).get("status") == "True"


# ---- starting ----


def test_a_bound_pod_runs_at_once(cluster: _Cluster) -> None:
    cluster.pod(generation=1, spec={"initContainers": [{"name": "first", "image": "j"}]})
    pod = cluster.get("Pod", "a")
    assert phase(pod) == "Running"
    assert _is_ready(pod)
    assert _container(pod)["state"] == {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
    (first,) = status(pod)["initContainerStatuses"]
    assert first["state"]["terminated"]["reason"] == "Completed"
    assert status(pod)["podIP"].startswith("10.")
    assert status(pod)["hostIP"] == "172.16.0.1"
    assert status(pod)["observedGeneration"] == 1


def test_a_pod_without_a_node_and_one_of_a_strange_node_stay_as_they_are(cluster: _Cluster) -> None:
    cluster.pod(spec={"nodeName": ""})
    cluster.pod("b", spec={"nodeName": "elsewhere"})
    assert cluster.due == {}
    assert [phase(cluster.get("Pod", name)) for name in "ab"] == ["Pending", "Pending"]


def test_pods_start_when_their_node_comes() -> None:
    cluster = _Cluster()
    cluster.pod()
    assert phase(cluster.get("Pod", "a")) == "Pending"
    cluster.node()
    assert phase(cluster.get("Pod", "a")) == "Running"


def test_start_up_takes_as_long_as_an_annotation_or_the_options_say() -> None:
    cluster = _Cluster(start_seconds=5.0)
    cluster.node()
    cluster.pod()
    cluster.pod("slow", annotations={"pod-ready.stage.kwok.x-k8s.io/delay": "1m"})
    cluster.pass_seconds(4.9)
    assert phase(cluster.get("Pod", "a")) == "Pending"
    cluster.pass_seconds(0.1)
    assert phase(cluster.get("Pod", "a")) == "Running"
    cluster.pass_seconds(54)
    assert phase(cluster.get("Pod", "slow")) == "Pending"
    cluster.pass_seconds(1)
    assert phase(cluster.get("Pod", "slow")) == "Running"


def test_jitter_lies_between_its_ends_and_follows_from_the_seed() -> None:
    given = {
        "pod-ready.stage.kwok.x-k8s.io/delay": "10s",
        "pod-ready.stage.kwok.x-k8s.io/jitter-delay": "20s",
    }

    def delays(seed: int) -> list[float]:
        cluster = _Cluster(seed=seed)
        cluster.node()
        for number in range(50):
            cluster.pod(f"p{number}", annotations=given)
        return [due - START for due in cluster.due.values()]

    first = delays(1)
    assert first == delays(1) != delays(2)
    assert 10 <= min(first) < 11
    assert 19 < max(first) <= 20


# ---- finishing ----


@pytest.mark.parametrize(
    ("annotations", "policy", "expected"),
    [
        ({"moorage.io/finish-after": "7s"}, "Always", "Succeeded"),
        (_FAILS_SOON, "Never", "Failed"),
        ({"pod-complete.stage.kwok.x-k8s.io/delay": "7s"}, "Never", "Succeeded"),
    ],
)
def test_pods_finish_when_they_are_told_to(
    cluster: _Cluster, annotations: dict[str, str], policy: str, expected: str
) -> None:
    cluster.pod(annotations=annotations, spec={"restartPolicy": policy})
    cluster.pass_seconds(6.9)
    assert phase(cluster.get("Pod", "a")) == "Running"
    cluster.pass_seconds(0.1)
    pod = cluster.get("Pod", "a")
    assert phase(pod) == expected
    assert not _is_ready(pod)
    assert _container(pod)["state"]["terminated"]["exitCode"] == (3 if expected == "Failed" else 0)
    assert cluster.due == {}


@pytest.mark.parametrize("image", ["pause", "registry.k8s.io/pause:3.10", "pause@sha256:1f"])
def test_pods_of_jobs_that_only_pause_do_not(cluster: _Cluster, image: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    containers = [{"name": "c", "image": image}]
    cluster.pod(ownerReferences=[owner], spec={"containers": containers})
    cluster.pass_seconds(1000)
    assert phase(cluster.get("Pod", "a")) == "Running"


def test_pods_of_jobs_finish_by_themselves(cluster: _Cluster) -> None:
    cluster.pod(ownerReferences=[{"kind": "Job", "name": "j", "uid": "1"}])
    assert phase(cluster.get("Pod", "a")) == "Succeeded"


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_what_fails_is_started_again_and_waits_longer_each_time(
    cluster: _Cluster, policy: str
) -> None:
    cluster.pod(annotations=_FAILS_SOON, spec={"restartPolicy": policy})
    starts: list[float] = []
    for _ in range(200):
        cluster.pass_seconds(1)
        pod = cluster.get("Pod", "a")
        assert phase(pod) == "Running"
        container = _container(pod)
        assert ("running" in container["state"]) is _is_ready(pod)
        if container["restartCount"] > len(starts):
            starts.append(cluster.now - START)
            assert container["lastState"]["terminated"]["exitCode"] == 3
    assert starts == [7, 7 + 7 + 10, 24 + 7 + 20, 51 + 7 + 40, 98 + 7 + 80]


def test_after_a_restart_of_ours_the_times_in_the_pod_count(cluster: _Cluster) -> None:
    cluster.pod(annotations={"moorage.io/finish-after": "60s"})
    again = _Cluster()
    again.now = cluster.now + 50
    again.node(status=status(cluster.get("Node", "n1")))
    again.store(cluster.get("Pod", "a"))
    again.pass_seconds(9)
    assert phase(again.get("Pod", "a")) == "Running"
    again.pass_seconds(1)
    assert phase(again.get("Pod", "a")) == "Succeeded"


def test_addresses_are_given_out_once(cluster: _Cluster) -> None:
    cluster.pod("a")
    cluster.pod("b")
    again = _Cluster()
    again.node(status=status(cluster.get("Node", "n1")))
    again.store(cluster.get("Pod", "b"))
    again.pod("c")
    again.pod("d", spec={"hostNetwork": True})
    addresses = [status(cluster.get("Pod", name))["podIP"] for name in "ab"]
    addresses += [status(again.get("Pod", name))["podIP"] for name in "cd"]
    assert addresses == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "172.16.0.1"]


# ---- going ----


def _delete(cluster: _Cluster, grace: int, **more: Any) -> None:
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": grace}
    cluster.change(cluster.get("Pod", "a"), metadata={**going, **more})


def test_a_deleted_pod_goes_when_its_grace_period_is_over() -> None:
    cluster = _Cluster(max_grace_seconds=100.0)
    cluster.node()
    cluster.pod()
    _delete(cluster, 30)
    cluster.pass_seconds(29)
    assert cluster.objects.all("Pod")
    cluster.pass_seconds(1)
    assert cluster.objects.all("Pod") == []


def test_nobody_waits_for_a_long_grace_period(cluster: _Cluster) -> None:
    cluster.pod()
    _delete(cluster, 3600)
    cluster.pass_seconds(1)
    assert cluster.objects.all("Pod") == []


@pytest.mark.parametrize(("grace", "lasts"), [(80, 79), (30, 30)])
def test_a_hook_that_sleeps_is_waited_for(cluster: _Cluster, grace: int, lasts: int) -> None:
    hook = {"preStop": {"sleep": {"seconds": 79}}}
    cluster.pod(spec={"containers": [{"name": "c", "image": "i", "lifecycle": hook}]})
    _delete(cluster, grace)
    cluster.pass_seconds(lasts - 1)
    assert cluster.objects.all("Pod")
    cluster.pass_seconds(1)
    assert cluster.objects.all("Pod") == []


def test_a_pod_with_a_finalizer_ends_and_is_not_deleted_twice(cluster: _Cluster) -> None:
    cluster.pod()
    _delete(cluster, 0, finalizers=["example.com/keep"])
    assert phase(cluster.get("Pod", "a")) == "Running"
    assert cluster.due == {}


# ---- nodes ----


def test_a_bare_node_becomes_ready(cluster: _Cluster) -> None:
    node = cluster.get("Node", "n1")
    assert _is_ready(node)
    assert status(node)["allocatable"] == {"cpu": "1k", "memory": "1Ti", "pods": "1M"}
    assert {one["type"] for one in status(node)["addresses"]} == {"InternalIP", "Hostname"}
    assert status(node)["nodeInfo"]["operatingSystem"] == "linux"


def test_what_a_node_says_of_itself_stands_unless_it_was_given_up() -> None:
    cluster = _Cluster()
    capacity = {"cpu": "2", "memory": "1Gi", "pods": "10"}
    broken = {"type": "Ready", "status": "False"}
    node = cluster.node(status={"capacity": capacity, "conditions": [broken]})
    assert not _is_ready(node)
    assert status(node)["capacity"] == status(node)["allocatable"] == capacity
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    cluster.change(node, status={"conditions": [lost]})
    assert _is_ready(cluster.get("Node", "n1"))


@pytest.mark.parametrize(
    ("options", "managed"),
    [
        ({}, ["annotated", "labelled", "plain"]),
        ({"all_nodes": False}, ["annotated", "labelled"]),
        ({"all_nodes": False, "labelled": None}, ["annotated"]),
        (
            {
                "all_nodes": False,
                "annotated": None,
                "labelled": selector_from_labels({"pool": "fake"}),
            },
            ["plain"],
        ),
    ],
)
def test_whose_nodes_are_whose(options: dict[str, Any], managed: list[str]) -> None:
    cluster = _Cluster(**options)
    fake = {"kwok.x-k8s.io/node": "fake"}
    cluster.node("annotated", metadata={"annotations": fake})
    cluster.node("labelled", metadata={"labels": fake})
    cluster.node("plain", metadata={"labels": {"pool": "fake"}})
    ready = [meta(node)["name"] for node in cluster.objects.all("Node") if _is_ready(node)]
    assert sorted(ready) == managed


def test_leases_are_renewed_in_time_and_not_all_at_once() -> None:
    cluster = _Cluster(lease_seconds=10.0)
    for number in range(40):
        cluster.node(f"n{number}")
    renewals: dict[float, int] = {}
    for _ in range(100):
        before = len(cluster.writes)
        cluster.pass_seconds(1)
        renewals[cluster.now] = len(cluster.writes) - before
        for lease in cluster.objects.all("Lease"):
            assert cluster.now - seconds(spec(lease)["renewTime"]) <= 10
    assert 400 <= sum(renewals.values()) <= 550
    assert max(list(renewals.values())[50:]) < 20


def test_the_lease_of_a_node_that_went_is_not_renewed() -> None:
    cluster = _Cluster(lease_seconds=10.0)
    cluster.node()
    cluster.remove("Node", "n1")
    written = len(cluster.writes)
    cluster.pass_seconds(100)
    assert len(cluster.writes) == written


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5s", 5), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("", None), ("soon", None)],
)
def test_durations(text: str, expected: float | None) -> None:
    assert duration_seconds(text) == expected
