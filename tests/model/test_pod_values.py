"""What follows from one pod or node alone: ports, affinity terms, zones, labels."""

from typing import Any

import msgspec
import pytest

from moorage.model.labels import LabelSelector
from moorage.model.meta import ObjectMeta, OwnerReference
from moorage.model.node import Node
from moorage.model.pod import HostPort, Pod, PodStatus


def pod(spec: dict[str, Any], namespace: str = "default", **metadata: Any) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": namespace, **metadata}, "spec": spec}, Pod
    )


def test_host_ports_of_containers_and_sidecars_count_but_not_of_init_containers() -> None:
    ports = pod(
        {
            "containers": [{"ports": [{"containerPort": 80}, {"hostPort": 8080}]}],
            "initContainers": [
                {"ports": [{"hostPort": 1}]},
                {"ports": [{"hostPort": 2, "protocol": "UDP"}], "restartPolicy": "Always"},
            ],
        }
    ).host_ports
    assert ports == (HostPort("TCP", 8080, "0.0.0.0"), HostPort("UDP", 2, "0.0.0.0"))


def test_the_address_of_a_host_port_is_kept() -> None:
    given = {"containers": [{"ports": [{"hostPort": 53, "hostIP": "10.0.0.1"}]}]}
    assert pod(given).host_ports == (HostPort("TCP", 53, "10.0.0.1"),)


def affinity(**term: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", **term}]}
    return pod({"affinity": {"podAffinity": required}}, namespace="mine")


def matches(subject: Pod, labels: dict[str, str], namespace: str, **of_namespace: str) -> bool:
    return subject.affinity_terms.affinity[0].matches(labels, namespace, of_namespace)


def test_a_term_without_namespaces_means_the_pods_own() -> None:
    subject = affinity(labelSelector={"matchLabels": {"app": "web"}})
    assert matches(subject, {"app": "web"}, "mine")
    assert not matches(subject, {"app": "web"}, "other")
    assert not matches(subject, {"app": "db"}, "mine")


def test_a_namespace_selector_replaces_the_pods_own_namespace() -> None:
    subject = affinity(labelSelector={}, namespaceSelector={"matchLabels": {"team": "a"}})
    assert matches(subject, {}, "other", team="a")
    assert not matches(subject, {}, "mine", team="b")


def test_an_empty_namespace_selector_means_all_namespaces() -> None:
    assert matches(affinity(labelSelector={}, namespaceSelector={}), {}, "anywhere")


def test_listed_and_selected_namespaces_add_up() -> None:
    subject = affinity(
        labelSelector={}, namespaces=["x"], namespaceSelector={"matchLabels": {"team": "a"}}
    )
    assert matches(subject, {}, "x")
    assert matches(subject, {}, "y", team="a")
    assert not matches(subject, {}, "mine")


def test_a_term_without_label_selector_matches_no_pod() -> None:
    assert not matches(affinity(), {"app": "web"}, "mine")


def test_terms_that_cannot_be_parsed_are_reported_by_group() -> None:
    bad = {"topologyKey": "z", "labelSelector": {"matchLabels": {"a b": "c"}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = pod(
        {
            "affinity": {
                "podAffinity": {required: [bad]},
                "podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": bad}]},
            }
        }
    ).affinity_terms
    assert not terms.all
    assert terms.error.startswith("[requiredAffinityTerms: ")
    assert ", preferredAntiAffinityTerms: " in terms.error


def test_node_selector_and_required_affinity_make_one_demand() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    demand = pod(
        {"nodeSelector": {"os": "linux"}, "affinity": {"nodeAffinity": required}}
    ).required_nodes
    assert demand.labels == (("os", "linux"),)
    assert demand.terms is not None
    assert demand.terms.matches({"zone": "a"}, "n")
    assert not demand.anywhere
    assert pod({}).required_nodes.anywhere


def test_life_cycle_marks_are_read_from_metadata_and_status() -> None:
    assert pod({}, deletionTimestamp="2026-01-01T00:00:00Z").terminating
    assert not pod({}).terminating
    assert msgspec.convert({"status": {"phase": "Failed"}}, Pod).finished
    assert not msgspec.convert({"status": {"phase": "Running"}}, Pod).finished
    assert (pod({}).priority, pod({"priority": -3}).priority) == (0, -3)


def node(**labels: str) -> Node:
    return Node(metadata=ObjectMeta(name="n", labels={_LABELS[k]: v for k, v in labels.items()}))


_LABELS = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "beta_zone": "failure-domain.beta.kubernetes.io/zone",
    "beta_region": "failure-domain.beta.kubernetes.io/region",
}


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"zone": "a"}, ":\x00:a"),
        ({"region": "r"}, "r:\x00:"),
        ({"zone": "a", "region": "r"}, "r:\x00:a"),
        ({"zone": "a", "beta_zone": "b", "region": "r"}, "r:\x00:b"),
        ({"zone": "a", "beta_zone": ""}, ""),
        ({"zone": "a", "beta_region": "q"}, "q:\x00:a"),
    ],
)
def test_the_zone_of_a_node_prefers_the_old_labels_even_if_empty(
    labels: dict[str, str], zone: str
) -> None:
    assert node(**labels).zone == zone


def test_allocatable_is_in_the_schedulers_units() -> None:
    status = {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "2"}}
    assert msgspec.convert({"status": status}, Node).allocatable == {
        "cpu": 4000,
        "memory": 1024**3,
        "pods": 110,
        "nvidia.com/gpu": 2,
    }


def test_the_controller_is_the_owner_marked_as_such() -> None:
    owners = (
        OwnerReference(name="a"),
        OwnerReference(name="b", controller=True),
    )
    controller = ObjectMeta(owner_references=owners).controller()
    assert controller is not None
    assert controller.name == "b"
    assert ObjectMeta(owner_references=owners[:1]).controller() is None


def test_objects_are_called_by_namespace_and_name() -> None:
    assert pod({}).key == "default/p"
    assert node().key == "n"
    assert LabelSelector() == LabelSelector()


def test_a_start_without_a_zone_is_in_utc() -> None:
    naive = Pod(status=PodStatus(start_time="1970-01-01T00:01:00"))
    assert naive.started == 60.0
    assert Pod(status=PodStatus(start_time="1970-01-01T01:01:00+01:00")).started == 60.0
