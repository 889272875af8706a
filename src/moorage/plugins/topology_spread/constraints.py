"""Spread constraints as the plugin uses them: the pod's own, or defaults for its owners."""

from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Codes, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.node_table import TaintSet
from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.view import NodeView
from moorage.errors import SelectorError
from moorage.model.labels import Requirement, Selector, compile_selector, selector_from_labels
from moorage.model.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.model.pod import Pod, TopologySpreadConstraint
from moorage.model.taints import TolerationIndex
from moorage.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"
IGNORE = "Ignore"

_FEW = 64
"""So many nodes are mostly in every domain that there is."""

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(
        max_skew=3, topology_key=HOSTNAME_LABEL, when_unsatisfiable=SCHEDULE_ANYWAY
    ),
    TopologySpreadConstraint(
        max_skew=5, topology_key=ZONE_LABEL, when_unsatisfiable=SCHEDULE_ANYWAY
    ),
)


class SpreadConstraint(msgspec.Struct, frozen=True, cache_hash=True):
    """One constraint with its selector compiled and its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def count(self, namespace: str, nodes: NodeView) -> Ints:
        """Per node, the pods that the constraint is about; terminating ones do not count."""
        if self.selector.empty:
            return np.zeros(len(nodes), np.int64)
        return nodes.pods_matching(self._query(namespace))

    def sums(self, namespace: str, nodes: NodeView, codes: Codes, taking_part: Bools) -> Ints:
        """The same summed up over codes of the label, for the nodes that take part."""
        counts = self.count(namespace, nodes)
        rows = ((counts != 0) & taking_part).nonzero()[0]  # mostly few
        size = len(nodes.label(self.topology_key).vocabulary)
        return np.bincount(codes[rows], counts[rows], size).astype(np.int64)

    def per_domain(self, namespace: str, nodes: NodeView) -> DomainSums:
        """The same if all nodes of the cluster take part; not for an empty selector."""
        return nodes.pods_per_domain(self._query(namespace), self.topology_key)

    def _query(self, namespace: str) -> PodQuery:
        return PodQuery((PodSelector(self.selector, (namespace,)),), terminating=False)

    def includes_all(self, pod: Pod) -> bool:
        """Do the inclusion policies leave every node in?"""
        return not self.honors_taints and not (
            self.honors_affinity and not pod.required_nodes.anywhere
        )

    def includes(self, pod: Pod, nodes: NodeView, *, comparisons: bool) -> Bools | None:
        """The nodes that take part by the inclusion policies; None means all of them."""
        included: Bools | None = None
        if self.honors_affinity and not pod.required_nodes.anywhere:
            included = nodes.required_by(pod.required_nodes)
        if self.honors_taints:
            tolerations = TolerationIndex(pod.spec.tolerations, comparisons=comparisons)

            def open_to_pod(taints: TaintSet) -> bool:
                return all(not taint.keeps_out or tolerations.tolerates(taint) for taint in taints)

            untainted = nodes.taints.where(open_to_pod)
            included = untainted if included is None else included & untainted
        return included


def domains_of_labelled(codes: Codes, size: int) -> Bools:
    """The domains that some of the nodes are in, all of which have the label."""
    found = np.zeros(size, np.bool_)
    found[codes[:_FEW]] = True
    if not found[1:].all():
        found[codes] = True
    return found


def constraints_key(constraints: Iterable[TopologySpreadConstraint], pod: Pod) -> Hashable:
    """Constraints as a value that can be a key, with the labels of the pod that they look at."""
    labels = pod.labels
    return tuple(
        [
            (
                one.max_skew,
                one.topology_key,
                None if one.label_selector is None else one.label_selector.key,
                one.min_domains,
                one.node_affinity_policy,
                one.node_taints_policy,
                tuple([(key, labels.get(key)) for key in one.match_label_keys]),
            )
            for one in constraints
        ]
    )


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], pod: Pod, *, match_label_keys: bool
) -> tuple[SpreadConstraint, ...]:
    """The constraints of one pod; raises `SelectorError` on a selector without meaning."""
    compiled = []
    for constraint in constraints:
        selector = compile_selector(constraint.label_selector)
        if match_label_keys:
            selector = selector.and_also(
                Requirement(key, "In", (pod.labels[key],))
                for key in constraint.match_label_keys
                if key in pod.labels
            )
        affinity_policy = constraint.node_affinity_policy or HONOR
        taints_policy = constraint.node_taints_policy or IGNORE
        compiled.append(
            SpreadConstraint(
                max_skew=constraint.max_skew,
                topology_key=constraint.topology_key,
                selector=selector,
                min_domains=1 if constraint.min_domains is None else constraint.min_domains,
                honors_affinity=affinity_policy == HONOR,
                honors_taints=taints_policy == HONOR,
            )
        )
    return tuple(compiled)


def all_topologies(constraints: Sequence[SpreadConstraint], nodes: NodeView) -> Bools:
    """The nodes that carry every topology key."""
    present = nodes.label(constraints[0].topology_key).present
    for constraint in constraints[1:]:
        present = present & nodes.label(constraint.topology_key).present
    return present


def is_alone(pod: Pod, listers: Listers) -> bool:
    """Has a pod neither an owner nor a service near it? Then nothing stands for pods like it."""
    return not pod.metadata.owner_references and not listers.of(Service).any_in(pod.namespace)


def default_selector(pod: Pod, listers: Listers) -> Selector:
    """What stands for "pods like this one": its services' and its owner's selectors."""
    labels: dict[str, str] = {}
    for service in listers.of(Service).in_namespace(pod.namespace):
        wanted = service.spec.selector
        if wanted and all(pod.labels.get(key) == value for key, value in wanted.items()):
            labels.update(wanted)
    owner = pod.metadata.controller()
    if owner is None:
        return selector_from_labels(labels)
    kind = (owner.api_version, owner.kind)
    if kind == ("v1", "ReplicationController"):
        controller = listers.of(ReplicationController).get(owner.name, pod.namespace)
        if controller is not None:
            labels.update(controller.spec.selector)
        return selector_from_labels(labels)
    owned: ReplicaSet | StatefulSet | None = None
    if kind == ("apps/v1", "ReplicaSet"):
        owned = listers.of(ReplicaSet).get(owner.name, pod.namespace)
    elif kind == ("apps/v1", "StatefulSet"):
        owned = listers.of(StatefulSet).get(owner.name, pod.namespace)
    selector = selector_from_labels(labels)
    if owned is None:
        return selector
    try:
        more = compile_selector(owned.spec.selector)
    except SelectorError:
        return selector
    return selector if more.nothing else selector.and_also(more.requirements)
