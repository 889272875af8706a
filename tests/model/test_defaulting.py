"""What the API server would add to an object before a scheduler sees it."""

from typing import Any

import msgspec
import pytest

from moorage.errors import DecodeError
from moorage.model.affinity import PodAffinityTerm
from moorage.model.defaulting import NO_CLASSES, Classes, make_uid, with_defaults, with_names
from moorage.model.devices import ResourceClaim, ResourceClaimTemplate
from moorage.model.labels import LabelSelectorRequirement
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import Node
from moorage.model.pod import HostPort, Pod
from moorage.model.pod_group import DisruptionMode, PodGroup, SingleDisruptionMode
from moorage.model.storage import PersistentVolumeClaim, StorageClass
from moorage.model.workloads import Namespace, PriorityClass, ReplicationController


def pod(spec: dict[str, Any], classes: Classes = NO_CLASSES, **metadata: Any) -> Pod:
    data = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", **metadata}, "spec": spec}
    stored = with_defaults(msgspec.convert(data, Pod), classes, "here")
    assert with_defaults(stored, classes) == stored, "defaulting twice changes nothing more"
    return stored


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "a", "resources": resources}


def test_requests_default_to_limits_resource_by_resource() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}
    given = container(limits=limits, requests={"cpu": "500m"})
    stored = pod({"containers": [given], "initContainers": [given]})
    expected = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 1}
    assert stored.spec.containers[0].resources.requests == expected
    assert stored.spec.init_containers[0].resources.requests == expected
    assert stored.requests.incoming == {"cpu": 500, "memory": 1024**3, "nvidia.com/gpu": 1}


def test_an_explicit_request_of_zero_is_kept() -> None:
    stored = pod({"containers": [container(limits={"cpu": "2"}, requests={"cpu": 0})]})
    assert stored.requests.incoming == {"cpu": 0}


def test_pod_level_requests_default_to_the_containers_then_to_the_limits() -> None:
    stored = pod(
        {
            "containers": [
                container(requests={"cpu": "100m"}),
                {"name": "b", "resources": {"requests": {"cpu": "150m"}}},
            ],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "200m"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        }
    )
    assert stored.spec.resources is not None
    assert stored.spec.resources.requests == {"cpu": "250m", "memory": "1Gi"}


def test_pod_level_requests_alone_stay_as_they_are() -> None:
    stored = pod(
        {
            "containers": [container(requests={"memory": "1Gi"})],
            "resources": {"requests": {"cpu": "1"}},
        }
    )
    assert stored.spec.resources is not None
    assert stored.spec.resources.requests == {"cpu": "1"}
    assert stored.spec.resources.limits == {}


def test_huge_pages_of_containers_become_limit_and_request_of_the_pod() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    stored = pod(
        {
            "containers": [container(limits=pages), {"name": "b", "resources": {"limits": pages}}],
            "resources": {"requests": {"cpu": "1"}},
        }
    )
    assert stored.spec.resources is not None
    assert stored.spec.resources.limits == {"hugepages-2Mi": str(8 * 1024**2)}
    assert stored.spec.resources.requests == {"cpu": "1", "hugepages-2Mi": str(8 * 1024**2)}


def test_huge_pages_asked_for_by_the_pod_get_no_limit() -> None:
    stored = pod(
        {
            "containers": [container(limits={"hugepages-2Mi": "4Mi"})],
            "resources": {"requests": {"hugepages-2Mi": "8Mi"}},
        }
    )
    assert stored.spec.resources is not None
    assert stored.spec.resources.limits == {}


def test_on_the_hosts_network_every_port_is_a_host_port() -> None:
    given = {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 53, "hostPort": 5353}]}
    stored = pod({"containers": [given], "hostNetwork": True})
    assert stored.host_ports == (HostPort("TCP", 80, "0.0.0.0"), HostPort("TCP", 5353, "0.0.0.0"))
    assert pod({"containers": [given]}).host_ports == (HostPort("TCP", 5353, "0.0.0.0"),)
    assert stored.spec.containers[0].ports[0].protocol == "TCP"


def test_an_empty_scheduler_name_means_the_default_one() -> None:
    assert pod({"schedulerName": ""}).spec.scheduler_name == "default-scheduler"
    assert pod({"schedulerName": "mine"}).spec.scheduler_name == "mine"


def test_tolerations_are_not_touched() -> None:
    assert pod({}).spec.tolerations == ()


def affinity_term(stored: Pod, side: str) -> PodAffinityTerm:
    assert stored.spec.affinity is not None
    found = getattr(stored.spec.affinity, side)
    if found.required:
        term = found.required[0]
    else:
        term = found.preferred[0].pod_affinity_term
    assert isinstance(term, PodAffinityTerm)
    return term


def requirement(key: str, operator: str, value: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=(value,))


LABELS = {"app": "web", "rev": "7"}


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("strength", ["required", "preferred"])
def test_label_keys_are_merged_into_affinity_selectors(side: str, strength: str) -> None:
    term: dict[str, Any] = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["app"],
    }
    if strength == "preferred":
        term = {"weight": 1, "podAffinityTerm": term}
    field = f"{strength}DuringSchedulingIgnoredDuringExecution"
    stored = pod({"affinity": {side: {field: [term]}}}, labels=LABELS)
    selector = affinity_term(
        stored, "pod_affinity" if side == "podAffinity" else "pod_anti_affinity"
    ).label_selector
    assert selector is not None
    assert selector.match_labels == {"app": "web"}
    assert selector.match_expressions == (
        requirement("rev", "In", "7"),
        requirement("app", "NotIn", "web"),
    )


def test_label_keys_without_a_selector_still_match_nothing() -> None:
    term = {"topologyKey": "zone", "matchLabelKeys": ["rev"]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    stored = pod({"affinity": {"podAffinity": {field: [term]}}}, labels=LABELS)
    assert affinity_term(stored, "pod_affinity").label_selector is None


def test_label_keys_are_merged_into_spread_selectors() -> None:
    constraint = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["rev"]}
    stored = pod({"topologySpreadConstraints": [constraint]}, labels=LABELS)
    selector = stored.spec.topology_spread_constraints[0].label_selector
    assert selector is not None
    assert selector.match_expressions == (requirement("rev", "In", "7"),)


def test_a_selector_that_was_merged_when_the_pod_was_created_is_kept() -> None:
    merged = {"key": "rev", "operator": "In", "values": ["6"]}
    constraint = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [merged]},
        "matchLabelKeys": ["rev"],
    }
    stored = pod({"topologySpreadConstraints": [constraint]}, labels=LABELS)
    selector = stored.spec.topology_spread_constraints[0].label_selector
    assert selector is not None
    assert selector.match_expressions == (requirement("rev", "In", "6"),)


def priority_class(name: str, value: int, **fields: Any) -> PriorityClass:
    return msgspec.convert({"metadata": {"name": name}, "value": value, **fields}, PriorityClass)


@pytest.mark.parametrize(
    ("spec", "priority", "class_name", "policy"),
    [
        pytest.param({}, 0, "", "PreemptLowerPriority", id="no class"),
        pytest.param(
            {"priorityClassName": "high"}, 1000, "high", "PreemptLowerPriority", id="a class"
        ),
        pytest.param({"priorityClassName": "meek"}, 900, "meek", "Never", id="a meek class"),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"},
            2_000_000_000,
            "system-cluster-critical",
            "PreemptLowerPriority",
            id="cluster critical",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            2_000_001_000,
            "system-node-critical",
            "PreemptLowerPriority",
            id="node critical",
        ),
        pytest.param({"priority": 7}, 7, "", None, id="given by the pod"),
        pytest.param(
            {"priority": 7, "priorityClassName": "gone"}, 7, "gone", None, id="older than its class"
        ),
    ],
)
def test_a_pod_gets_the_priority_of_its_class(
    spec: dict[str, Any], priority: int, class_name: str, policy: str | None
) -> None:
    classes = Classes.among(
        [priority_class("high", 1000), priority_class("meek", 900, preemptionPolicy="Never")]
    )
    stored = pod(spec, classes).spec
    assert (stored.priority, stored.priority_class_name, stored.preemption_policy) == (
        priority,
        class_name,
        policy,
    )


def test_of_several_global_defaults_the_lowest_is_taken() -> None:
    classes = Classes.among(
        [
            priority_class("b", 20, globalDefault=True),
            priority_class("a", 10, globalDefault=True, preemptionPolicy="Never"),
            priority_class("c", 5),
        ]
    )
    stored = pod({}, classes).spec
    assert (stored.priority, stored.priority_class_name) == (10, "a")
    assert stored.preemption_policy == "Never"


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        pod({"priorityClassName": "nope"})
    assert str(caught.value) == "here: Pod d/p: no PriorityClass with name nope was found"


def default(struct: type[ApiObject], classes: Classes = NO_CLASSES, **data: Any) -> Any:
    named = {"metadata": {"name": "x"}, **data}
    stored = with_defaults(msgspec.convert(named, struct), classes)
    assert with_defaults(stored, classes) == stored
    return stored


def test_a_node_offers_all_it_has_unless_it_says_otherwise() -> None:
    capacity = {"cpu": "4"}
    assert default(Node, status={"capacity": capacity}).status.allocatable == capacity
    both = {"capacity": capacity, "allocatable": {"cpu": "3"}}
    assert default(Node, status=both).status.allocatable == {"cpu": "3"}


def test_a_namespace_carries_its_name_as_a_label() -> None:
    labels = default(Namespace, metadata={"name": "x", "labels": {"a": "b"}}).labels
    assert labels == {"a": "b", "kubernetes.io/metadata.name": "x"}


def test_a_replication_controller_selects_the_pods_of_its_template() -> None:
    template = {"metadata": {"labels": {"app": "web"}}}
    assert default(ReplicationController, spec={"template": template}).spec.selector == {
        "app": "web"
    }
    given = {"template": template, "selector": {"app": "x"}}
    assert default(ReplicationController, spec=given).spec.selector == {"app": "x"}


def test_a_storage_class_binds_at_once_unless_told_to_wait() -> None:
    assert default(StorageClass).volume_binding_mode == "Immediate"


def storage_class(name: str, created: str | None = None) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return StorageClass(
        metadata=ObjectMeta(name=name, annotations=annotations, creation_timestamp=created)
    )


def test_a_claim_without_a_class_gets_the_newest_default_one() -> None:
    classes = Classes.among(
        [
            storage_class("b", "2026-01-01T00:00:00Z"),
            storage_class("c", "2026-02-01T00:00:00Z"),
            storage_class("a", "2026-02-01T00:00:00Z"),
            StorageClass(metadata=ObjectMeta(name="plain")),
        ]
    )
    assert default(PersistentVolumeClaim, classes, spec={}).storage_class == "a"
    none_wanted = default(PersistentVolumeClaim, classes, spec={"storageClassName": ""})
    assert none_wanted.storage_class == ""
    assert not default(PersistentVolumeClaim, spec={}).has_class


def test_a_bound_claim_without_a_class_stays_without() -> None:
    metadata = {"name": "x", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    classes = Classes.among([storage_class("a")])
    spec = {"volumeName": "v"}
    assert not default(PersistentVolumeClaim, classes, metadata=metadata, spec=spec).has_class


def test_a_device_request_asks_for_one_device_unless_for_all() -> None:
    devices = {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "c"}},
            {"name": "b", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
            {"name": "c", "firstAvailable": [{"name": "d", "count": 3}, {"name": "e"}]},
        ]
    }
    for spec in (
        default(ResourceClaim, spec={"devices": devices}).spec,
        default(ResourceClaimTemplate, spec={"spec": {"devices": devices}}).spec.spec,
    ):
        one, everything, choice = spec.devices.requests
        assert (one.exactly.allocation_mode, one.exactly.count) == ("ExactCount", 1)
        assert (everything.exactly.allocation_mode, everything.exactly.count) == ("All", 0)
        assert [sub.count for sub in choice.first_available] == [3, 1]


def test_pods_of_a_group_are_disrupted_one_by_one() -> None:
    group = default(PodGroup)
    assert group.spec.disruption_mode == DisruptionMode(single=SingleDisruptionMode())
    assert not group.disrupted_together


def test_a_missing_uid_is_made_from_kind_and_name() -> None:
    assert pod({}).uid == make_uid("Pod", "d", "p")
    assert pod({}, uid="given").uid == "given"
    assert make_uid("Pod", "d", "p") != make_uid("Node", "d", "p")
    assert make_uid("Pod", "d", "p") == "cf6ac63a-42a3-5c3f-94e9-fc6bd541af16"


def test_generated_names_are_numbered_around_those_in_use() -> None:
    def named(name: str = "", generate_name: str = "") -> Pod:
        return Pod(metadata=ObjectMeta(namespace="d", name=name, generate_name=generate_name))

    objects = [
        named(generate_name="web-"),
        named(name="web-1"),
        named(generate_name="web-"),
        named(generate_name="db-"),
        Pod(metadata=ObjectMeta(namespace="other", generate_name="web-")),
        Node(metadata=ObjectMeta(generate_name="web-")),
    ]
    assert [obj.key for obj in with_names(objects)] == [
        "d/web-0",
        "d/web-1",
        "d/web-2",
        "d/db-0",
        "other/web-0",
        "web-0",
    ]
