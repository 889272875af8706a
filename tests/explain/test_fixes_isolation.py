"""Whoever asks for fixes changes nothing: later decisions are those of a scheduler nobody asked."""

from typing import Any

from hypothesis import given

from explain.asked_clusters import Cluster, Make, clusters, side_by_side
from moorage.explain.fixes import smallest_fixes
from moorage.explain.fixes.changes import CREATE, Change
from moorage.explain.fixes.sandbox import Sandbox
from moorage.model.decode import decode_object
from moorage.model.devices import DeviceClass, ResourceClaim
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.pod import Pod
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.model.workloads import PriorityClass
from moorage.testing import make_node, make_pod
from properties.harness import effort


def ask_for_fixes(cluster: Cluster) -> int:
    scheduler = cluster.scheduler
    found = 0
    for pod in list(scheduler.state.listers.of(Pod)):
        if not pod.spec.node_name:
            profile = scheduler.profiles[pod.spec.scheduler_name]
            found += len(smallest_fixes(scheduler.cycle, profile, pod))
    return found


def compare(make: Make, steps: int) -> tuple[list[Any], int]:
    """Both tell the same, asked or not; what they tell, and how many fixes were found."""
    found: list[int] = []
    plain, asked = side_by_side(make, steps, lambda cluster: found.append(ask_for_fixes(cluster)))
    mine, other = asked.scheduler, plain.scheduler
    assert list(mine.state.nodes.row_of.items()) == list(other.state.nodes.row_of.items())
    assert mine.state.nodes.nodes == other.state.nodes.nodes
    rows = [state.order.rows(state.nodes.row_of).tolist() for state in (mine.state, other.state)]
    assert rows[0] == rows[1]
    for row in range(len(mine.state)):
        assert list(mine.state.pods.on(row)) == list(other.state.pods.on(row))
    assert mine.state.sizes() == other.state.sizes()
    for kind in (PersistentVolume, PersistentVolumeClaim, StorageClass, ResourceClaim, DeviceClass):
        known = [list(one.state.listers.of(kind)) for one in (mine, other)]
        assert known[0] == known[1]
    return plain.told, sum(found)


@effort(20)
@given(clusters())
def test_decisions_are_the_same_whether_fixes_were_asked_for_or_not(make: Make) -> None:
    compare(make, steps=6)


def test_nodes_that_were_only_thought_of_leave_no_trace() -> None:
    """New, opened and labelled nodes are put into the state for a moment."""

    def make() -> Cluster:
        cluster = Cluster()
        nodes = [
            make_node(f"n{i}", zone=f"z{i % 2}", cpu="2", unschedulable=i == 3) for i in range(4)
        ]
        placed = [make_pod(f"p{i}", cpu="1500m", node_name=f"n{i}", priority=5) for i in range(3)]
        waiting = [
            make_pod("large", cpu="1"),
            make_pod("picky", cpu="100m", spec={"nodeSelector": {"disk": "ssd"}}),
            make_pod("small", cpu="100m"),
        ]
        cluster.add(nodes, [*placed, *waiting])
        return cluster

    asked = make()
    scheduler = asked.scheduler
    profile = scheduler.profiles["default-scheduler"]
    kinds = {
        fix.kind
        for pod in scheduler.state.listers.of(Pod)
        if not pod.spec.node_name
        for fix in smallest_fixes(scheduler.cycle, profile, pod)
    }
    assert {"addNode", "uncordon", "labelNode", "movePod", "raisePriority"} <= kinds
    told, found = compare(make, steps=5)
    assert found > 5
    assert {key for what, key, *_ in told if what == "bind"} == {"default/small"}


def test_objects_that_were_only_thought_of_leave_no_trace() -> None:
    """Claims, classes and volumes that are missing are made for a moment, too."""
    late = {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "late"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    gpu = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"}}
    offered = {
        "kind": "ResourceSlice",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n0",
            "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        },
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]

    def make() -> Cluster:
        cluster = Cluster()
        for document in (late, gpu, offered):
            obj = decode_object(document, "test object")
            assert isinstance(obj, ApiObject)
            cluster.scheduler.state.listers.of(type(obj)).put(obj)
        waiting = [
            make_pod("stateful", spec={"volumes": [volume]}),
            make_pod("visual", spec={"resourceClaims": claims}),
            make_pod("plain", cpu="1"),
        ]
        cluster.add([make_node("n0"), make_node("n1")], waiting)
        return cluster

    told, found = compare(make, steps=6)

    assert found > 4
    assert {key for what, key, *_ in told if what == "bind"} == {"default/plain"}


def local_volume_documents() -> list[dict[str, Any]]:
    """A claim whose volume was released by an earlier claim of the same name."""
    local = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    return [
        {
            "kind": "StorageClass",
            "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "data", "namespace": "default", "uid": "new"},
            "spec": {**local, "resources": {"requests": {"storage": "1Gi"}}},
        },
        {
            "kind": "PersistentVolume",
            "apiVersion": "v1",
            "metadata": {"name": "default-data-on-n0"},
            "spec": {
                **local,
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/old"},
                "claimRef": {"namespace": "default", "name": "data", "uid": "old"},
            },
            "status": {"phase": "Released"},
        },
    ]


def test_a_volume_that_is_thought_of_gets_a_name_that_is_free() -> None:
    def make() -> Cluster:
        cluster = Cluster()
        for document in local_volume_documents():
            obj = decode_object(document, "test object")
            assert isinstance(obj, ApiObject)
            cluster.scheduler.state.listers.of(type(obj)).put(obj)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        pod = make_pod("stateful", spec={"volumes": [volume]})
        cluster.add([make_node("n0")], [pod])
        return cluster

    scheduler = make().scheduler
    (pod,) = scheduler.state.listers.of(Pod)
    fixes = smallest_fixes(scheduler.cycle, scheduler.profiles["default-scheduler"], pod)
    created = [edit.name for fix in fixes for edit in fix.edits if edit.create is not None]
    assert created == ["default-data-on-n0-2"]
    compare(make, steps=3)


def test_an_object_in_the_place_of_another_gives_it_back() -> None:
    cluster = Cluster()
    scheduler = cluster.scheduler
    lister = scheduler.state.listers.of(PriorityClass)
    old = [PriorityClass(metadata=ObjectMeta(name=name), value=1) for name in ("a", "b")]
    for one in old:
        lister.put(one)
    new = PriorityClass(metadata=ObjectMeta(name="a"), value=2)
    change = Change(CREATE, "create twice", 1.0, objects=(new, new))
    bench = Sandbox(scheduler.cycle, scheduler.profiles["default-scheduler"], make_pod(), 1.0)

    with bench.during(change):
        assert lister.get("a") is new

    assert list(lister) == old
