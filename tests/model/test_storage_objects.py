"""What follows from one storage object, device claim or pod group alone."""

from typing import Any

import msgspec
import pytest

from moorage.model.devices import AllocationResult, ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


def volume(spec: dict[str, Any], **metadata: Any) -> PersistentVolume:
    return msgspec.convert({"metadata": {"name": "v", **metadata}, "spec": spec}, PersistentVolume)


def claim(spec: dict[str, Any], **metadata: Any) -> PersistentVolumeClaim:
    data = {"metadata": {"name": "c", "namespace": "d", "uid": "u", **metadata}, "spec": spec}
    return msgspec.convert(data, PersistentVolumeClaim)


BETA_CLASS = {"volume.beta.kubernetes.io/storage-class": "old"}


def test_the_old_annotation_outranks_the_class_field() -> None:
    assert volume({"storageClassName": "new"}).storage_class == "new"
    assert volume({"storageClassName": "new"}, annotations=BETA_CLASS).storage_class == "old"
    assert claim({"storageClassName": "new"}).storage_class == "new"
    assert claim({"storageClassName": "new"}, annotations=BETA_CLASS).storage_class == "old"


def test_the_empty_class_is_a_class_but_none_is_not() -> None:
    assert claim({"storageClassName": ""}).has_class
    assert claim({}, annotations=BETA_CLASS).has_class
    assert not claim({}).has_class
    assert claim({}).storage_class == ""


def test_a_claim_is_bound_when_the_controller_says_so() -> None:
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    assert claim({"volumeName": "v"}, annotations=done).fully_bound
    assert not claim({"volumeName": "v"}).fully_bound
    assert not claim({}, annotations=done).fully_bound


@pytest.mark.parametrize(
    ("reference", "bound"),
    [
        pytest.param(None, False, id="no reference"),
        pytest.param({"namespace": "d", "name": "c", "uid": "u"}, True, id="by uid"),
        pytest.param({"namespace": "d", "name": "c"}, True, id="by the user, without uid"),
        pytest.param({"namespace": "d", "name": "c", "uid": "x"}, False, id="an earlier claim"),
        pytest.param({"namespace": "e", "name": "c"}, False, id="another namespace"),
        pytest.param({"namespace": "d", "name": "b"}, False, id="another name"),
    ],
)
def test_a_volume_belongs_to_the_claim_it_refers_to(
    reference: dict[str, str] | None, bound: bool
) -> None:
    spec = {} if reference is None else {"claimRef": reference}
    assert volume(spec).bound_to(claim({})) is bound


def test_sizes_are_exact() -> None:
    assert volume({"capacity": {"storage": "1500m"}}).milli_capacity == 1500
    assert volume({}).milli_capacity == 0
    assert claim({"resources": {"requests": {"storage": "1Gi"}}}).milli_request == 1024**3 * 1000
    assert claim({}).milli_request is None


def test_a_volume_is_reachable_from_the_nodes_its_affinity_names() -> None:
    terms = [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        }
    ]
    somewhere = volume({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}})
    assert somewhere.reachable_from({"zone": "a"}), "names of nodes are not looked at"
    assert not somewhere.reachable_from({"zone": "b"})
    assert volume({}).reachable_from({})
    assert volume({"nodeAffinity": {}}).reachable_from({})


def test_a_volume_is_a_file_system_unless_told_otherwise() -> None:
    assert (volume({}).volume_mode, claim({}).volume_mode) == ("Filesystem", "Filesystem")
    assert volume({"volumeMode": "Block"}).volume_mode == "Block"
    assert claim({"volumeMode": "Block"}).volume_mode == "Block"


def test_the_claim_of_an_ephemeral_volume_is_named_after_the_pod() -> None:
    spec = {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "config", "configMap": {"name": "x"}},
        ]
    }
    pod = msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, Pod)
    assert [v.claim_name("web") for v in pod.spec.volumes] == ["mine", "web-scratch", None]


def test_in_tree_volumes_keep_the_fields_that_tell_them_apart() -> None:
    volumes = [
        {"name": "a", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
        {"name": "b", "gcePersistentDisk": {"pdName": "disk"}},
        {"name": "c", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "d", "azureDisk": {"diskName": "n", "diskURI": "/u", "kind": "Managed"}},
        {"name": "e", "cinder": {"volumeID": "os"}},
        {"name": "f", "portworxVolume": {"volumeID": "px"}},
        {"name": "g", "vsphereVolume": {"volumePath": "[ds] x"}},
        {"name": "h", "iscsi": {"iqn": "iqn.x"}},
        {"name": "i", "azureFile": {"shareName": "s", "secretName": "t"}},
        {"name": "j", "image": {"reference": "r:1"}},
        {"name": "k", "csi": {"driver": "inline.example.com"}},
    ]
    a, b, c, d, e, f, g, h, i, j, k = msgspec.convert(
        {"spec": {"volumes": volumes}}, Pod
    ).spec.volumes
    assert a.aws_elastic_block_store
    assert (a.aws_elastic_block_store.volume_id, a.aws_elastic_block_store.read_only) == (
        "vol-1",
        True,
    )
    assert b.gce_persistent_disk
    assert b.gce_persistent_disk.pd_name == "disk"
    assert c.rbd
    assert c.rbd.pool == "rbd", "the API server's default"
    assert d.azure_disk
    assert (d.azure_disk.disk_uri, d.azure_disk.kind) == ("/u", "Managed")
    assert e.cinder
    assert e.cinder.volume_id == "os"
    assert f.portworx_volume
    assert f.portworx_volume.volume_id == "px"
    assert g.vsphere_volume
    assert g.vsphere_volume.volume_path == "[ds] x"
    assert h.iscsi
    assert h.iscsi.iqn == "iqn.x"
    assert i.azure_file
    assert i.azure_file.share_name == "s"
    assert j.image
    assert j.image.reference == "r:1"
    assert k.csi
    assert k.csi.driver == "inline.example.com"


def test_a_csi_node_tells_limits_and_migrated_plugins() -> None:
    annotation = "storage.alpha.kubernetes.io/migrated-plugins"
    node = msgspec.convert(
        {
            "metadata": {"annotations": {annotation: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}},
            "spec": {
                "drivers": [
                    {"name": "a", "nodeID": "x", "allocatable": {"count": 3}},
                    {"name": "b", "allocatable": {}},
                    {"name": "c"},
                    {"name": "d", "allocatable": {"count": 0}},
                ]
            },
        },
        CSINode,
    )
    assert node.limits == {"a": 3, "d": 0}
    assert node.migrated_plugins == {"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"}
    assert CSINode().migrated_plugins == frozenset()


def test_the_largest_possible_volume_outranks_the_total_capacity() -> None:
    def capacity(**fields: Any) -> CSIStorageCapacity:
        return msgspec.convert(fields, CSIStorageCapacity)

    assert capacity(capacity="10", maximumVolumeSize="4").milli_limit == 4000
    assert capacity(capacity="10").milli_limit == 10_000
    assert capacity().milli_limit is None


def test_capacity_for_no_topology_or_a_bad_one_is_for_no_node() -> None:
    def nodes(topology: dict[str, Any] | None) -> CSIStorageCapacity:
        fields = {} if topology is None else {"nodeTopology": topology}
        return msgspec.convert(fields, CSIStorageCapacity)

    assert not nodes(None).nodes.matches({"zone": "a"})
    assert nodes({}).nodes.matches({"zone": "a"})
    assert nodes({"matchLabels": {"zone": "a"}}).nodes.matches({"zone": "a"})
    assert not nodes({"matchLabels": {"a b": "c"}}).nodes.matches({"a b": "c"})


def test_a_storage_class_says_when_it_binds_and_whether_it_is_the_default() -> None:
    wait = msgspec.convert({"volumeBindingMode": "WaitForFirstConsumer"}, StorageClass)
    assert wait.waits_for_first_consumer
    assert not StorageClass().waits_for_first_consumer
    mark = "storageclass.kubernetes.io/is-default-class"
    for value, default in (("true", True), ("false", False)):
        data = {"metadata": {"annotations": {mark: value}}}
        assert msgspec.convert(data, StorageClass).is_default is default


def test_an_allocated_claim_tells_nodes_and_users() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    status = {
        "allocation": {
            "devices": {"results": [{"request": "r", "shareID": "s", "pool": "p"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "42"}],
    }
    allocated = msgspec.convert({"status": status}, ResourceClaim)
    assert allocated.allocated
    assert allocated.status.allocation is not None
    available = allocated.status.allocation.available_nodes
    assert available is not None
    assert available.matches({}, "n1")
    assert not available.matches({}, "n2")
    assert allocated.reserved_by("42")
    assert not allocated.reserved_by("43")
    assert allocated.status.allocation
    assert allocated.status.allocation.devices.results[0].share_id == "s"
    assert not ResourceClaim().allocated
    assert AllocationResult().available_nodes is None


def test_attributes_of_devices_are_typed() -> None:
    device = {
        "name": "d",
        "attributes": {
            "n": {"int": 3},
            "b": {"bool": False},
            "s": {"string": "x"},
            "v": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "8Gi"}},
    }
    attributes = (
        msgspec.convert({"spec": {"devices": [device]}}, ResourceSlice).spec.devices[0].attributes
    )
    assert attributes["n"].int_value == 3
    assert attributes["b"].bool_value is False
    assert attributes["s"].string_value == "x"
    assert attributes["v"].version_value == "1.2.3"


def test_a_pod_group_is_a_gang_or_not() -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }
    gang = msgspec.convert({"spec": spec}, PodGroup)
    assert (gang.min_count, gang.topology_keys) == (4, ("rack",))
    basic = msgspec.convert({"spec": {"schedulingPolicy": {"basic": {}}}}, PodGroup)
    assert (basic.min_count, basic.topology_keys) == (None, ())


def test_objects_are_values() -> None:
    first: ApiObject = volume({"csi": {"driver": "d", "volumeHandle": "h"}})
    assert first == volume({"csi": {"driver": "d", "volumeHandle": "h"}})
    with pytest.raises(AttributeError):
        first.kind = "other"  # type: ignore[misc]
