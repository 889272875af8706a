"""What scheduler and plugins write in a simulation: conditions, groups, volumes, devices."""

from functools import partial
from typing import Any

from moorage.controllers.objects import Json, meta, spec, status
from scenarios.simulated import conditions, node_body, placements, pod_body, simulated

GROUPS = {"GenericWorkload": True}


def group(name: str, at_least: int, **more: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": at_least}}, **more},
    }


def member(name: str, of: str, priority: int = 0) -> Json:
    return pod_body(name, priority=priority, schedulingGroup={"podGroupName": of})


def test_a_pod_that_waits_is_told_why_and_a_victim_why_it_goes() -> None:
    with simulated(node_body("quay"), pod_body("low")) as run:
        run.plan(10, lambda: run.come(pod_body("high", priority=5)))
        run.play(10.5)
        assert conditions(run, "Pod", "low")["DisruptionTarget"] == (
            "True",
            "PreemptionByScheduler",
        )
        waiting = run.api.cluster.get("Pod", "default", "high") or {}
        assert status(waiting)["nominatedNodeName"] == "quay"
        assert conditions(run, "Pod", "high")["PodScheduled"] == ("False", "Unschedulable")
        run.play(60)
        assert placements(run) == {"high": "quay"}
        assert conditions(run, "Pod", "high")["PodScheduled"] == ("True", "")


def test_a_gang_waits_for_all_its_pods_and_goes_together() -> None:
    nodes = (node_body("a"), node_body("b"))
    with simulated(*nodes, group("team", 2), gates=GROUPS) as run:
        run.come(member("one", "team"))
        run.plan(100, lambda: run.come(member("two", "team")))
        run.play(50)
        assert placements(run) == {"one": ""}
        run.play(200)
        assert set(placements(run).values()) == {"a", "b"}
        assert conditions(run, "PodGroup", "team")["PodGroupInitiallyScheduled"][0] == "True"


def test_a_gang_that_does_not_fit_leaves_no_pod_behind() -> None:
    with simulated(node_body("a"), group("team", 2), gates=GROUPS) as run:
        for name in ("one", "two"):
            run.come(member(name, "team"))
        run.play(100)
        assert placements(run) == {"one": "", "two": ""}
        assert conditions(run, "PodGroup", "team")["PodGroupInitiallyScheduled"][0] == "False"


def test_a_gang_has_less_important_pods_evicted() -> None:
    nodes = (node_body("a"), node_body("b"))
    gang = group("team", 2, priority=10)
    with simulated(*nodes, pod_body("low"), gang, gates=GROUPS) as run:
        for name in ("one", "two"):
            run.plan(10, partial(run.come, member(name, "team", priority=10)))
        run.play(100)
        assert run.preempted == ["default/low"]
        assert set(placements(run).values()) == {"a", "b"}


def storage_class(mode: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard"},
        "provisioner": "simulated.moorage.io",
        "volumeBindingMode": mode,
    }


CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "storageClassName": "standard",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def test_a_volume_is_made_for_the_first_pod_that_wants_it() -> None:
    pod = pod_body("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    first = storage_class("WaitForFirstConsumer")
    with simulated(node_body("quay"), first, CLAIM, pod) as run:
        run.play(60)
        assert placements(run) == {"p": "quay"}
        claim = run.api.cluster.get("PersistentVolumeClaim", "default", "data") or {}
        assert status(claim)["phase"] == "Bound"
        assert meta(claim)["annotations"]["volume.kubernetes.io/selected-node"] == "quay"
        (volume,) = run.api.cluster.all("PersistentVolume")
        assert spec(claim)["volumeName"] == meta(volume)["name"]


def test_a_pod_whose_volume_nobody_makes_is_tried_again() -> None:
    pod = pod_body("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    nobody = {
        **storage_class("WaitForFirstConsumer"),
        "provisioner": "kubernetes.io/no-provisioner",
    }
    with simulated(node_body("quay"), nobody, CLAIM, pod) as run:
        run.play(60)
        assert placements(run) == {"p": ""}
        assert conditions(run, "Pod", "p")["PodScheduled"] == ("False", "Unschedulable")


DEVICES: tuple[Json, ...] = (
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "quay-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "quay",
            "pool": {"name": "quay", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
            }
        },
    },
)


def gpu_pod(name: str, lasts: str) -> Json:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod = pod_body(name, cpu="1", resourceClaims=claims, restartPolicy="Never")
    meta(pod)["annotations"] = {"moorage.io/finish-after": lasts}
    return pod


def test_devices_are_allocated_and_free_again_when_the_pod_has_finished() -> None:
    seen: list[Json] = []
    with simulated(node_body("quay"), *DEVICES, gpu_pod("first", "60s")) as run:
        run.plan(10, lambda: run.come(gpu_pod("second", "60s")))
        run.plan(30, lambda: seen.extend(run.api.cluster.all("ResourceClaim")))
        run.play(30)
        assert placements(run) == {"first": "quay", "second": ""}
        allocated = [one for one in seen if status(one).get("allocation")]
        assert len(seen) == 2
        assert [status(one)["reservedFor"][0]["name"] for one in allocated] == ["first"]
        run.play(300)
        assert placements(run)["second"] == "quay"
        assert run.api.cluster.all("ResourceClaim") == []
