"""What every column must say, worked out from the objects from scratch."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from framework.building import NOW
from moorage.cluster.node_table import EMPTY
from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.model.affinity import PodTerm
from moorage.model.labels import EVERYTHING, NOTHING, Requirement, Selector, selector_from_labels
from moorage.model.pod import HostPort, Pod
from properties.harness import Twin
from properties.strategies import PORTS, RESOURCES, TOPOLOGY_KEYS
from reference.cluster import NaiveNode, Port
from reference.node_plugins import port_taken
from reference.objects import make_pod

LABEL_KEYS = (*TOPOLOGY_KEYS, "nobody-has-this")
PRIORITIES = (0, 6, 100)

NEWCOMERS = (
    make_pod("web", labels={"app": "web"}),
    make_pod("first", labels={"app": "web", "tier": "1"}),
    make_pod("db", namespace="other", labels={"app": "db", "tier": "1"}),
    make_pod("plain", namespace="other"),
)
_WEB = selector_from_labels({"app": "web"})
_UNTIERED = Selector((Requirement("tier", "DoesNotExist"),))
QUERIES = (
    PodQuery(()),
    PodQuery((PodSelector(NOTHING),)),
    PodQuery((PodSelector(_WEB),)),
    PodQuery((PodSelector(_UNTIERED),)),
    PodQuery((PodSelector(_WEB), PodSelector(_UNTIERED, ("default", "other")))),
    PodQuery((PodSelector(EVERYTHING, ("default",)),), terminating=False),
)


class ColumnChecks:
    """Compares every column with the objects; the count columns live as long as this does."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin
        self.fresh = 0
        self.before: tuple[int, list[dict[Aspect, Hashable]]] = (0, [])

    @property
    def infos(self) -> list[NaiveNode]:
        """The naive nodes in the order of the rows."""
        return [self.twin.naive.infos[node.name] for node in self.twin.state.nodes.nodes]

    def check(self) -> None:
        """All of it."""
        self.check_rows()
        self.check_node_columns()
        self.check_usage()
        self.check_counts()
        self.check_terms()
        self.check_ports()
        self.check_images()
        self.check_order()
        self.check_lesser_pods()
        self.check_places()
        self.check_stamps()

    def check_rows(self) -> None:
        table = self.twin.state.nodes
        assert len(self.twin.state) == len(table.nodes) == len(self.twin.naive.nodes)
        assert {node.name: node for node in table.nodes} == self.twin.naive.nodes
        assert table.row_of == {node.name: row for row, node in enumerate(table.nodes)}

    def check_node_columns(self) -> None:
        view, nodes = NodeView(self.twin.state), [info.present() for info in self.infos]
        for resource in RESOURCES:
            offered = [node.allocatable.get(resource, 0) for node in nodes]
            assert view.allocatable(resource).tolist() == offered, resource
        assert view.unschedulable.tolist() == [node.spec.unschedulable for node in nodes]
        taints = [view.taints.vocabulary.values[code] for code in view.taints.codes]
        assert taints == [node.spec.taints for node in nodes]
        features = view.declared_features
        assert [features.vocabulary.values[code] for code in features.codes] == [
            frozenset(node.status.declared_features) for node in nodes
        ]
        for key in LABEL_KEYS:
            label = view.label(key)
            values = [label.vocabulary.values[code] for code in label.codes]
            assert values == [node.labels.get(key) for node in nodes], key
            assert label.present.tolist() == [key in node.labels for node in nodes]

    def check_usage(self) -> None:
        view, infos = NodeView(self.twin.state), self.infos
        for resource in (*RESOURCES, "kubernetes.io/odd"):
            used = [info.requested(resource) for info in infos]
            assert view.requested(resource).tolist() == used, resource
        for resource in ("cpu", "memory"):
            used = [info.requested_with_defaults(resource) for info in infos]
            assert view.requested_with_defaults(resource).tolist() == used, resource
        there = [len(info.pods) for info in infos]
        assert view.pod_count.tolist() == there
        emptiness = self.twin.state.nodes.emptiness.values
        assert emptiness.tolist() == [EMPTY - count for count in there]
        for row, info in enumerate(infos):
            assert {pod.uid: pod for pod in view.pods_on(row)} == info.pods

    def check_counts(self) -> None:
        counts = self.twin.state.counts
        self.fresh += 1
        nobody = Selector((Requirement("asked", "NotIn", (str(self.fresh),)),))
        for query in QUERIES:
            expected = [
                sum(query.matches(pod) for pod in info.pods.values()) for info in self.infos
            ]
            assert counts.matching(query).tolist() == expected, f"kept: {query}"
            # A query that nobody has asked yet is counted from all pods at once.
            fresh = PodQuery((*query.selectors, PodSelector(nobody)), query.terminating)
            assert counts.matching(fresh).tolist() == expected, f"new: {query}"

    def check_terms(self) -> None:
        for pod in NEWCOMERS:
            labels = self.twin.naive.namespace_labels(pod.namespace)
            expected: dict[PodTerm, list[int]] = {}
            for row, info in enumerate(self.infos):
                for term in _all_terms(info.pods.values()):
                    if term.term.matches(pod.labels, pod.namespace, labels):
                        expected.setdefault(term, [0] * len(self.infos))[row] += 1
            found = {
                entry.pod_term: entry.counts.values.tolist()
                for entry in NodeView(self.twin.state).terms_matching(pod)
            }
            assert found == expected

    def check_ports(self) -> None:
        for port in PORTS:
            ip, protocol = port.host_ip or "0.0.0.0", port.protocol or "TCP"
            wanted = HostPort(protocol, port.host_port, ip)
            taken = [
                port_taken(Port(ip, protocol, port.host_port), info.ports) for info in self.infos
            ]
            assert NodeView(self.twin.state).with_taken_ports([wanted]).tolist() == taken

    def check_images(self) -> None:
        state, naive = self.twin.state, self.twin.naive
        for name in ("web:v1", "db:latest", "db:latest-alias", "reg.io:5000/tool:v2", "gone"):
            found, expected = state.images.find(name), naive.images.get(name)
            assert (found is None) is (expected is None), name
            if found is not None and expected is not None:
                assert {state.nodes.nodes[row].name for row in found.rows} == expected.nodes
                assert found.size == expected.size, name

    def check_order(self) -> None:
        state = self.twin.state
        order = state.order.rows(state.nodes.row_of)
        assert [state.nodes.nodes[row].name for row in order] == self.twin.naive.order()

    def check_lesser_pods(self) -> None:
        view = NodeView(self.twin.state)
        for priority in PRIORITIES:
            lesser = view.lesser_pods(priority, NOW)
            expected = [
                (row, -pod.priority, pod.status.start_time, pod.uid)
                for row, info in enumerate(self.infos)
                for pod in info.pods.values()
                if pod.priority < priority
            ]
            found = [
                (row, -pod.priority, pod.status.start_time, pod.uid)
                for row, pod in zip(lesser.rows.tolist(), lesser.pods, strict=True)
            ]
            assert found == sorted(expected, key=lambda entry: entry[:3])
            crowded = np.flatnonzero(view.have_lesser_pods(priority)).tolist()
            assert crowded == sorted({row for row, *_ in expected})
            for resource, column in lesser.requests.items():
                amounts = [pod.requests.occupied.get(resource, 0) for pod in lesser.pods]
                assert column.tolist() == amounts, resource

    def check_places(self) -> None:
        state, naive = self.twin.state, self.twin.naive
        assert {pod.uid: (pod, node) for pod, node in state.placed_pods()} == naive.placed
        for uid, (pod, node_name) in naive.placed.items():
            assert state.node_of(pod) == node_name
            assert state.is_assumed(pod) is (uid in naive.assumed)

    def check_stamps(self) -> None:
        """Whatever differs from the last time is in the rows said to have changed since."""
        generation, old = self.before
        new = [_facts(info) for info in self.infos]
        stamps = self.twin.state.stamps
        for aspect in Aspect:
            changed = set(stamps.changed_since([aspect], generation).tolist())
            different = {
                row
                for row, facts in enumerate(new)
                if row >= len(old) or facts[aspect] != old[row][aspect]
            }
            assert different <= changed, f"{aspect.name} of rows {different - changed}"
        self.before = (stamps.generation, new)


def _all_terms(pods: Iterable[Pod]) -> list[PodTerm]:
    return [term for pod in pods for term in pod.affinity_terms.all]


def _facts(info: NaiveNode) -> dict[Aspect, Any]:
    """What each aspect of a row is about."""
    node, pods = info.present(), list(info.pods.values())
    return {
        Aspect.MEMBERSHIP: node.name,
        Aspect.ALLOCATABLE: node.status.allocatable,
        Aspect.REQUESTED: Counter(str(sorted(p.requests.occupied.items())) for p in pods),
        Aspect.LABELS: node.labels,
        Aspect.TAINTS: (node.spec.taints, node.spec.unschedulable),
        Aspect.IMAGES: node.status.images,
        Aspect.PORTS: frozenset(info.ports),
        Aspect.PODS: {pod.uid: pod for pod in pods},
        Aspect.VOLUMES: {pod.uid: pod.spec.volumes for pod in pods if pod.spec.volumes},
        Aspect.FEATURES: node.status.declared_features,
    }


def all_read_only(view: NodeView) -> bool:
    """Is every array that plugins see protected from being written to?"""
    arrays: list[np.ndarray[Any, Any]] = [
        view.allocatable("cpu"),
        view.requested("cpu"),
        view.requested_with_defaults("cpu"),
        view.pod_count,
        view.unschedulable,
        view.taints.codes,
        view.declared_features.codes,
        view.label("disk").codes,
        view.pods_matching(PodQuery(())),
    ]
    return not any(array.flags.writeable for array in arrays)
