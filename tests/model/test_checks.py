"""What the API server would refuse is found at load time, with the field named."""

from typing import Any

import msgspec
import pytest

from moorage.errors import DecodeError
from moorage.model.checks import RULES, check_object
from moorage.model.decode import UnknownKind, decode_object
from moorage.model.meta import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check(kind: str, api_version: str = "v1", **fields: Any) -> None:
    data = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}
    obj = decode_object(data, "here")
    assert not isinstance(obj, UnknownKind)
    check_object(obj, "here")


def check_pod(**spec: Any) -> None:
    check("Pod", spec={"containers": [{"name": "a"}], **spec})


def test_an_ordinary_pod_passes() -> None:
    check_pod(
        containers=[
            {
                "name": "a",
                "resources": {
                    "requests": {"cpu": "100m", "nvidia.com/gpu": 1},
                    "limits": {"cpu": 1, "nvidia.com/gpu": 1},
                },
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }
        ],
        tolerations=[{"operator": "Exists"}, {"key": "a", "effect": "NoExecute"}],
        nodeSelector={"kubernetes.io/os": "linux"},
        topologySpreadConstraints=[{"topologyKey": "zone", "labelSelector": {}}],
    )


def resources(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b", "resources": fields}]}


def node_affinity(*expressions: dict[str, Any], field: str = "matchExpressions") -> dict[str, Any]:
    terms = [{}, {field: list(expressions)}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def pod_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "z", **term}]}}}


def spread(**constraint: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"topologyKey": "z", **constraint}]}


def ephemeral_volume(**spec: Any) -> dict[str, Any]:
    return {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}


EXISTS = {"key": "a", "operator": "Exists"}
IN_NODE_AFFINITY = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[1]"


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        pytest.param(
            resources(requests={"cpu": "1Q"}),
            "containers[1].resources.requests[cpu]",
            "'1Q' is not a quantity",
            id="quantity of a container",
        ),
        pytest.param(
            resources(limits={"memory": ""}),
            "containers[1].resources.limits[memory]",
            "'' is not a quantity",
            id="empty quantity",
        ),
        pytest.param(
            {"initContainers": [{"resources": {"requests": {"cpu": "x"}}}]},
            "initContainers[0].resources.requests[cpu]",
            "'x' is not a quantity",
            id="quantity of an init container",
        ),
        pytest.param(
            {"overhead": {"cpu": "1,5"}},
            "overhead[cpu]",
            "'1,5' is not a quantity",
            id="quantity of the overhead",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "many"}}},
            "resources.requests[cpu]",
            "'many' is not a quantity",
            id="quantity of the whole pod",
        ),
        pytest.param(
            {"overhead": {"cpu": "-1"}},
            "overhead[cpu]",
            "'-1' must not be negative",
            id="negative quantity",
        ),
        pytest.param(
            resources(requests={"gpu": 1}),
            "containers[1].resources.requests[gpu]",
            '"gpu" is not a resource that can be asked for here',
            id="unknown resource",
        ),
        pytest.param(
            {"resources": {"limits": {"nvidia.com/gpu": 1}}},
            "resources.limits[nvidia.com/gpu]",
            '"nvidia.com/gpu" is not a resource',
            id="resource that a whole pod cannot ask for",
        ),
        pytest.param(
            resources(requests={"nvidia.com/gpu": "500m"}),
            "containers[1].resources.requests[nvidia.com/gpu]",
            "'500m' must be a whole number",
            id="half a device",
        ),
        pytest.param(
            resources(requests={"cpu": 2}, limits={"cpu": "1500m"}),
            "containers[1].resources.requests[cpu]",
            "2 is more than the limit of '1500m'",
            id="request above the limit",
        ),
        pytest.param(
            node_affinity(EXISTS, {"key": "a", "operator": "Is"}),
            f"{IN_NODE_AFFINITY}.matchExpressions[1].operator",
            "Unsupported value: 'Is'",
            id="operator of a node selector",
        ),
        pytest.param(
            node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
            f"{IN_NODE_AFFINITY}.matchExpressions[0].values",
            "exactly one integer",
            id="bounds of a node selector",
        ),
        pytest.param(
            node_affinity({"key": "a b", "operator": "Exists"}),
            f"{IN_NODE_AFFINITY}.matchExpressions[0].key",
            "not a valid label key",
            id="key of a node selector",
        ),
        pytest.param(
            node_affinity({"key": "metadata.name", "operator": "Exists"}, field="matchFields"),
            f"{IN_NODE_AFFINITY}.matchFields[0].operator",
            "Unsupported value: 'Exists'",
            id="operator on a field",
        ),
        pytest.param(
            node_affinity(
                {"key": "metadata.uid", "operator": "In", "values": ["x"]}, field="matchFields"
            ),
            f"{IN_NODE_AFFINITY}.matchFields[0].key",
            '"metadata.uid" is not one of metadata.name',
            id="unknown field",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
            f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
            "at least one term is required",
            id="no terms",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}},
            f"affinity.nodeAffinity.{PREFERRED}[0].weight",
            "101 is not between 1 and 100",
            id="weight",
        ),
        pytest.param(
            pod_affinity(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            f"affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator",
            "Unsupported value: 'Gt'",
            id="operator of a label selector",
        ),
        pytest.param(
            pod_affinity(namespaceSelector={"matchLabels": {"team": "a b"}}),
            f"affinity.podAntiAffinity.{REQUIRED}[0].namespaceSelector.matchLabels[team]",
            '"a b" is not a valid label value',
            id="value in a label selector",
        ),
        pytest.param(
            pod_affinity(topologyKey=""),
            f"affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
            "a label key is required",
            id="no topology key",
        ),
        pytest.param(
            spread(maxSkew=0),
            "topologySpreadConstraints[0].maxSkew",
            "0 is not between 1",
            id="skew",
        ),
        pytest.param(
            spread(whenUnsatisfiable="Maybe"),
            "topologySpreadConstraints[0].whenUnsatisfiable",
            '"Maybe" is not one of DoNotSchedule, ScheduleAnyway',
            id="when unsatisfiable",
        ),
        pytest.param(
            spread(nodeTaintsPolicy="Obey"),
            "topologySpreadConstraints[0].nodeTaintsPolicy",
            '"Obey" is not one of Honor, Ignore',
            id="inclusion policy",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exist"}]},
            "tolerations[0].operator",
            '"Exist" is not one of Exists, Equal, Lt, Gt',
            id="operator of a toleration",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": "NoRun"}]},
            "tolerations[0].effect",
            '"NoRun" is not one of',
            id="effect of a toleration",
        ),
        pytest.param(
            {"tolerations": [{"value": "a"}]},
            "tolerations[0].operator",
            "needs the operator Exists",
            id="toleration without a key",
        ),
        pytest.param(
            {"containers": [{"ports": [{"hostPort": 70000}]}]},
            "containers[0].ports[0].hostPort",
            "70000 is not between 0 and 65535",
            id="port",
        ),
        pytest.param(
            {"containers": [{"ports": [{"protocol": "HTTP"}]}]},
            "containers[0].ports[0].protocol",
            '"HTTP" is not one of TCP, UDP, SCTP',
            id="protocol",
        ),
        pytest.param(
            {"containers": []}, "containers", "at least one container is required", id="empty pod"
        ),
        pytest.param(
            {"nodeSelector": {"zone": "a b"}},
            "nodeSelector[zone]",
            '"a b" is not a valid label value',
            id="node selector",
        ),
        pytest.param({"priority": 2**31}, "priority", "the number must be at most", id="priority"),
        pytest.param(
            {"preemptionPolicy": "Always"}, "preemptionPolicy", "is not one of", id="policy"
        ),
        pytest.param(
            ephemeral_volume(resources={"requests": {"storage": "big"}}),
            "volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
            "'big' is not a quantity",
            id="size of an ephemeral volume",
        ),
    ],
)
def test_a_bad_pod_is_refused_with_the_field_named(
    spec: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        check_pod(**spec)
    assert str(caught.value).startswith(f"here: Pod default/x: spec.{field}: ")
    assert text in str(caught.value)


DRA = "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("kind", "api_version", "fields", "text"),
    [
        pytest.param(
            "Node",
            "v1",
            {"status": {"allocatable": {"cpu": "4 cores"}}},
            "Node x: status.allocatable[cpu]: '4 cores' is not a quantity",
            id="allocatable",
        ),
        pytest.param(
            "Node",
            "v1",
            {"status": {"capacity": {"memory": "-1"}}},
            "Node x: status.capacity[memory]: '-1' must not be negative",
            id="capacity",
        ),
        pytest.param(
            "Node",
            "v1",
            {"spec": {"taints": [{"key": "a", "effect": "No"}]}},
            'Node x: spec.taints[0].effect: "No" is not one of',
            id="taint",
        ),
        pytest.param(
            "Node",
            "v1",
            {"metadata": {"name": "x", "labels": {"a/b/c": "d"}}},
            'Node x: metadata.labels[a/b/c]: "a/b/c" is not a valid label key',
            id="label",
        ),
        pytest.param(
            "Pod",
            "v1",
            {"metadata": {}},
            "here: Pod: metadata.name: a name is required",
            id="name",
        ),
        pytest.param(
            "PriorityClass",
            "scheduling.k8s.io/v1",
            {"value": 2_000_000_000},
            "PriorityClass x: value: 2000000000 is not between",
            id="priority class",
        ),
        pytest.param(
            "StorageClass",
            "storage.k8s.io/v1",
            {"provisioner": "p", "volumeBindingMode": "Later"},
            'StorageClass x: volumeBindingMode: "Later" is not one of',
            id="binding mode",
        ),
        pytest.param(
            "CSIStorageCapacity",
            "storage.k8s.io/v1",
            {"capacity": "full"},
            "CSIStorageCapacity default/x: capacity: 'full' is not a quantity",
            id="storage capacity",
        ),
        pytest.param(
            "PersistentVolume",
            "v1",
            {"spec": {"capacity": {"storage": "1Gb"}}},
            "PersistentVolume x: spec.capacity[storage]: '1Gb' is not a quantity",
            id="volume",
        ),
        pytest.param(
            "PodDisruptionBudget",
            "policy/v1",
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
            "PodDisruptionBudget default/x: spec.selector.matchExpressions[0].values: ",
            id="selector of a budget",
        ),
        pytest.param(
            "ResourceClaim",
            DRA,
            {"spec": {"devices": {"requests": [{"name": "r"}]}}},
            "spec.devices.requests[0]: either exactly or firstAvailable is required",
            id="empty device request",
        ),
        pytest.param(
            "ResourceClaim",
            DRA,
            {"spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}},
            "spec.devices.requests[0].exactly.deviceClassName: a device class is required",
            id="no device class",
        ),
        pytest.param(
            "DeviceClass",
            DRA,
            {"spec": {"selectors": [{}]}},
            "spec.selectors[0].cel.expression: an expression is required",
            id="empty device selector",
        ),
        pytest.param(
            "ResourceSlice",
            DRA,
            {"spec": {"driver": "d", "pool": {"name": "p"}}},
            "ResourceSlice x: spec: exactly one of nodeName, nodeSelector",
            id="slice for nobody",
        ),
        pytest.param(
            "ResourceSlice",
            DRA,
            {
                "spec": {
                    "driver": "d",
                    "pool": {"name": "p", "generation": 2**63},
                    "allNodes": True,
                }
            },
            "spec.pool.generation: the number must be at most 9223372036854775807",
            id="huge number",
        ),
        pytest.param(
            "PodGroup",
            "scheduling.k8s.io/v1beta1",
            {"spec": {"schedulingPolicy": {}}},
            "PodGroup default/x: spec.schedulingPolicy: either basic or gang is required",
            id="group without a policy",
        ),
        pytest.param(
            "PodGroup",
            "scheduling.k8s.io/v1beta1",
            {"spec": {"schedulingPolicy": {"gang": {"minCount": 0}}}},
            "spec.schedulingPolicy.gang.minCount: 0 is not between 1",
            id="gang of nobody",
        ),
        pytest.param(
            "PodGroup",
            "scheduling.k8s.io/v1beta1",
            {"spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {}}},
            "spec.disruptionMode: either single or all is required",
            id="group disrupted in no way",
        ),
    ],
)
def test_other_kinds_are_checked_likewise(
    kind: str, api_version: str, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        check(kind, api_version, **fields)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_generated_name_is_a_name() -> None:
    check("Node", metadata={"generateName": "n-"})


@pytest.mark.parametrize(
    ("kind", "metadata", "field"),
    [
        ("Pod", {"name": "Web"}, "metadata.name"),
        ("Pod", {"name": "a\nb"}, "metadata.name"),
        ("Node", {"name": "\ud800"}, "metadata.name"),
        ("Node", {"name": "a" * 254}, "metadata.name"),
        ("Namespace", {"name": "a.b"}, "metadata.name"),
        ("Service", {"name": "1a"}, "metadata.name"),
        ("Pod", {"generateName": "a_"}, "metadata.generateName"),
        ("Pod", {"name": "a", "namespace": "a.b"}, "metadata.namespace"),
        ("Pod", {"name": "a", "creationTimestamp": "soon"}, "metadata.creationTimestamp"),
        ("Pod", {"name": "a", "deletionTimestamp": ""}, "metadata.deletionTimestamp"),
    ],
)
def test_names_and_times_are_spelled_as_the_api_server_wants_them(
    kind: str, metadata: dict[str, Any], field: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        check(kind, metadata=metadata, spec={"containers": [{}]} if kind == "Pod" else {})
    assert str(caught.value).startswith(f"here: {kind} ")
    assert f": {field}: " in str(caught.value)


def test_a_start_that_is_no_time_is_named() -> None:
    with pytest.raises(DecodeError, match=r'status\.startTime: "noon" is not a time such as'):
        check("Pod", spec={"containers": [{}]}, status={"startTime": "noon"})


def test_names_that_the_api_server_takes_pass() -> None:
    check("Node", metadata={"name": "10.0.0.1"})
    check("Namespace", metadata={"name": "1-a"})
    pod = {"generateName": "web-", "creationTimestamp": "2026-01-31T12:00:00.123456Z"}
    check("Pod", metadata=pod, spec={"containers": [{}]})


def test_every_rule_is_about_a_field_of_a_type() -> None:
    def below(struct: type[Object]) -> list[type[Object]]:
        return [struct, *(found for sub in struct.__subclasses__() for found in below(sub))]

    known = {
        struct.__name__: {field.encode_name for field in msgspec.structs.fields(struct)}
        for struct in below(Object)
    }
    unknown = {name: rules.keys() - known.get(name, set()) for name, rules in RULES.items()}
    assert not any(unknown.values()), unknown
