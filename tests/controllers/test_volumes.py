"""Claims and volumes: which one a claim gets, what is made for it, and what becomes of it after."""

from typing import Any

import pytest

from controllers.stage import Stage
from moorage.controllers.objects import Json, annotations, meta, spec, status


@pytest.fixture
def stage() -> Stage:
    return Stage()


def _class(stage: Stage, name: str, mode: str = "Immediate", **more: Any) -> None:
    body = {"provisioner": "disks.example", "volumeBindingMode": mode, **more}
    stage.create("StorageClass", name, fields=body)


def _claim(
    stage: Stage, name: str, size: str = "1Gi", storage_class: str = "", **more: Any
) -> None:
    wanted = {"requests": {"storage": size}}
    fields = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], **more}
    stage.create("PersistentVolumeClaim", name, {"resources": wanted, **fields})


def _volume(stage: Stage, name: str, size: str = "1Gi", **more: Any) -> None:
    fields = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **more}
    stage.create("PersistentVolume", name, fields)


def _phase(stage: Stage, kind: str, name: str) -> str:
    namespace = {} if kind == "PersistentVolumeClaim" else {"namespace": ""}
    return str(status(stage.get(kind, name, **namespace))["phase"])


def _only_volume(stage: Stage) -> Json:
    (only,) = stage.cluster.all("PersistentVolume")
    return only


def test_a_claim_gets_the_smallest_volume_that_is_large_enough(stage: Stage) -> None:
    for name, size in (("a", "1Gi"), ("b", "8Gi"), ("c", "4Gi")):
        _volume(stage, name, size)
    _claim(stage, "data", "2Gi")
    stage.settle()
    claim = stage.get("PersistentVolumeClaim", "data")
    assert spec(claim)["volumeName"] == "c"
    assert status(claim)["phase"] == "Bound"
    assert status(claim)["capacity"] == {"storage": "4Gi"}
    assert annotations(claim) == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    assert [_phase(stage, "PersistentVolume", name) for name in "abc"] == [
        "Available",
        "Available",
        "Bound",
    ]


@pytest.mark.parametrize(
    "unlike",
    [
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"storageClassName": "other"},
        {"claimRef": {"namespace": "default", "name": "another"}},
    ],
)
def test_a_volume_that_does_not_suit_is_not_taken(stage: Stage, unlike: Json) -> None:
    _volume(stage, "v", **unlike)
    _claim(stage, "data")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Pending"
    assert stage.events[-1] == (
        "FailedBinding: no persistent volumes available for this claim and no storage class is set"
    )
    _volume(stage, "w")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Bound"


def test_a_volume_made_for_a_claim_is_kept_for_it(stage: Stage) -> None:
    _volume(stage, "kept", "9Gi", claimRef={"namespace": "default", "name": "mine"})
    _volume(stage, "other")
    _claim(stage, "yours")
    _claim(stage, "mine")
    stage.settle()
    names = {
        name: spec(stage.get("PersistentVolumeClaim", name))["volumeName"]
        for name in ("mine", "yours")
    }
    assert names == {"mine": "kept", "yours": "other"}


def test_a_class_with_a_provisioner_makes_what_is_missing(stage: Stage) -> None:
    _class(stage, "fast")
    _claim(stage, "data", "3Gi", "fast")
    stage.settle()
    volume = _only_volume(stage)
    assert meta(volume)["name"] == f"pvc-{meta(stage.get('PersistentVolumeClaim', 'data'))['uid']}"
    assert spec(volume)["capacity"] == {"storage": "3Gi"}
    assert spec(volume)["csi"]["driver"] == "disks.example"
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Bound"


def test_a_claim_that_waits_for_a_pod_is_provisioned_when_the_scheduler_has_chosen(
    stage: Stage,
) -> None:
    zone = "topology.kubernetes.io/zone"
    terms = [{"matchLabelExpressions": [{"key": zone, "values": ["east", "west"]}]}]
    _class(stage, "late", "WaitForFirstConsumer", allowedTopologies=terms)
    stage.create("Node", "n1", {}, labels={zone: "west"})
    _claim(stage, "data", "1Gi", "late")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Pending"
    chosen = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    stage.patch("PersistentVolumeClaim", "data", metadata=chosen)
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Bound"
    (term,) = spec(_only_volume(stage))["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": zone, "operator": "In", "values": ["west"]}]


def test_a_volume_that_the_scheduler_chose_is_bound(stage: Stage) -> None:
    _class(stage, "local", "WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner")
    _volume(stage, "disk", storageClassName="local")
    _claim(stage, "data", "1Gi", "local")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Pending"
    uid = meta(stage.get("PersistentVolumeClaim", "data"))["uid"]
    whose = {"namespace": "default", "name": "data", "uid": uid}
    stage.patch("PersistentVolume", "disk", "", spec={"claimRef": whose})
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Bound"


@pytest.mark.parametrize(("policy", "left"), [("Delete", []), ("Retain", ["Released"])])
def test_what_becomes_of_a_volume_whose_claim_has_gone(
    stage: Stage, policy: str, left: list[str]
) -> None:
    _class(stage, "fast", reclaimPolicy=policy)
    _claim(stage, "data", storage_class="fast")
    stage.settle()
    stage.delete("PersistentVolumeClaim", "data")
    stage.settle()
    assert [status(one)["phase"] for one in stage.cluster.all("PersistentVolume")] == left


def test_a_claim_whose_volume_has_gone_is_lost(stage: Stage) -> None:
    _volume(stage, "v")
    _claim(stage, "data")
    stage.settle()
    stage.delete("PersistentVolume", "v", "")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Lost"


def test_a_class_that_is_not_there_is_named(stage: Stage) -> None:
    _claim(stage, "data", storage_class="none")
    stage.settle()
    assert stage.events[-1] == ('ProvisioningFailed: storageclass.storage.k8s.io "none" not found')
    _class(stage, "none")
    stage.settle()
    assert _phase(stage, "PersistentVolumeClaim", "data") == "Bound"


def test_bound_things_are_left_alone(stage: Stage) -> None:
    _class(stage, "fast")
    _claim(stage, "data", storage_class="fast")
    stage.settle()
    version = meta(_only_volume(stage))["resourceVersion"]
    stage.patch("PersistentVolumeClaim", "data", metadata={"labels": {"a": "b"}})
    stage.settle()
    assert meta(_only_volume(stage))["resourceVersion"] == version
