"""PodTopologySpread with dictionaries: one count per constraint and topology value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moorage.model.node import Node
from moorage.model.pod import Pod, TopologySpreadConstraint
from moorage.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from reference.answers import (
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Refusal,
    Skip,
    truncated,
)
from reference.cluster import NaiveCluster, NaiveNode
from reference.node_plugins import untolerated
from reference.selectors import Test, Tests, admits, equalities, passes, tests_of

HOSTNAME = "kubernetes.io/hostname"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(
        max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"
    ),
    TopologySpreadConstraint(
        max_skew=5,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable="ScheduleAnyway",
    ),
)


@dataclass
class Rule:
    """A constraint, ready to be used."""

    constraint: TopologySpreadConstraint
    tests: Tests

    @property
    def key(self) -> str:
        """The topology key."""
        return self.constraint.topology_key

    def takes_in(self, pod: Pod, node: Node) -> bool:
        """Does the node take part, by the inclusion policies?"""
        if self.constraint.node_affinity_policy in (None, "Honor") and not admits(pod, node):
            return False
        if self.constraint.node_taints_policy == "Honor":
            return not untolerated(node.spec.taints, pod.spec.tolerations)
        return True

    def count(self, info: NaiveNode, namespace: str) -> int:
        """The matching pods of a node; an empty selector counts nobody."""
        if self.tests is not None and not self.tests:
            return 0
        return sum(
            pod.namespace == namespace
            and pod.metadata.deletion_timestamp is None
            and passes(self.tests, pod.labels)
            for pod in info.pods.values()
        )


def rules(
    pod: Pod,
    cluster: NaiveCluster,
    action: str,
    defaults: Sequence[TopologySpreadConstraint] = SYSTEM_DEFAULTS,
) -> list[Rule]:
    """The pod's constraints of one kind, or the defaults if it has no constraint of any kind."""
    own = pod.spec.topology_spread_constraints
    chosen = [c for c in own or defaults if c.when_unsatisfiable == action]
    result = [Rule(c, _merged(c, pod)) for c in chosen]
    if own or not result:
        return result
    tests = _default_tests(pod, cluster)
    return [Rule(rule.constraint, tests) for rule in result] if tests else []


def _merged(constraint: TopologySpreadConstraint, pod: Pod) -> Tests:
    tests = tests_of(constraint.label_selector)
    if tests is None:
        return None
    own = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    return [*tests, *equalities(own)]


def _default_tests(pod: Pod, cluster: NaiveCluster) -> list[Test]:
    labels: dict[str, str] = {}
    for service in cluster.all_of(Service):
        if service.namespace == pod.namespace and passes(
            equalities(service.spec.selector), pod.labels
        ):
            labels.update(service.spec.selector)
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    more: Tests = None
    if owner is not None:
        where = (pod.namespace, owner.name)
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = cluster.get(ReplicationController, *where)
            labels.update(controller.spec.selector if controller is not None else {})
        elif (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
            replica_set = cluster.get(ReplicaSet, *where)
            more = tests_of(replica_set.spec.selector) if replica_set is not None else None
        elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
            stateful_set = cluster.get(StatefulSet, *where)
            more = tests_of(stateful_set.spec.selector) if stateful_set is not None else None
    return [*equalities(labels), *(more or [])]


# Hard constraints


@dataclass
class HardState:
    """Matching pods per constraint and topology value."""

    rules: list[Rule]
    counts: list[dict[str, int]]

    def copy(self) -> "HardState":
        """A copy to try things on."""
        return HardState(self.rules, [dict(count) for count in self.counts])


def count_hard(
    pod: Pod,
    cluster: NaiveCluster,
    defaults: Sequence[TopologySpreadConstraint] = SYSTEM_DEFAULTS,
) -> HardState | Skip:
    """Count the pods around every node that takes part."""
    hard = rules(pod, cluster, "DoNotSchedule", defaults)
    if not hard:
        return SKIP
    counts: list[dict[str, int]] = [{} for _ in hard]
    for info in cluster.infos.values():
        if info.node is None or not has_all_keys(info.node, hard):
            continue
        for rule, count in zip(hard, counts, strict=True):
            if rule.takes_in(pod, info.node):
                value = info.node.labels[rule.key]
                count[value] = count.get(value, 0) + rule.count(info, pod.namespace)
    return HardState(hard, counts)


def has_all_keys(node: Node, rules_: Sequence[Rule]) -> bool:
    """Does the node have a value for every topology key?"""
    return all(rule.key in node.labels for rule in rules_)


def change_hard(state: HardState, pod: Pod, other: Pod, node: Node, sign: int) -> None:
    """Another pod comes or goes, counted upstream's way.

    Here a terminating pod counts like any other and an empty selector matches everybody.
    """
    if other.namespace != pod.namespace or not has_all_keys(node, state.rules):
        return
    for rule, count in zip(state.rules, state.counts, strict=True):
        if passes(rule.tests, other.labels) and rule.takes_in(pod, node):
            value = node.labels[rule.key]
            count[value] = count.get(value, 0) + sign


def refuse_skewed(state: HardState, pod: Pod, node: Node) -> Refusal | None:
    """The first constraint that is violated decides."""
    for rule, count in zip(state.rules, state.counts, strict=True):
        if rule.key not in node.labels:
            return Refusal(UNRESOLVABLE, (UNLABELLED,))
        smallest = min(count.values(), default=2**31 - 1)
        minimum = rule.constraint.min_domains
        if len(count) < (1 if minimum is None else minimum):
            smallest = 0
        own = 1 if passes(rule.tests, pod.labels) else 0
        skew = count.get(node.labels[rule.key], 0) + own - smallest
        if skew > rule.constraint.max_skew:
            return Refusal(UNSCHEDULABLE, (SKEWED,))
    return None


# Soft constraints


def score_spread(
    pod: Pod,
    cluster: NaiveCluster,
    feasible: Sequence[str],
    defaults: Sequence[TopologySpreadConstraint] | None = None,
) -> tuple[dict[str, int], dict[str, int]] | Skip:
    """(raw, normalised) scores of the feasible nodes; `defaults=None` are the system's."""
    soft = rules(pod, cluster, "ScheduleAnyway", SYSTEM_DEFAULTS if defaults is None else defaults)
    if not soft:
        return SKIP
    all_needed = bool(pod.spec.topology_spread_constraints) or defaults is not None
    nodes = cluster.nodes
    ignored = {name for name in feasible if all_needed and not has_all_keys(nodes[name], soft)}
    counts, weights = [], []
    for rule in soft:
        values = {nodes[name].labels.get(rule.key, "") for name in feasible if name not in ignored}
        size = len(feasible) - len(ignored) if rule.key == HOSTNAME else len(values)
        weights.append(math.log(size + 2))
        counts.append(_around(rule, soft, pod, cluster, values, all_needed=all_needed))
    raw = {}
    for name in feasible:
        total = 0.0
        for rule, count, weight in zip(soft, counts, weights, strict=True):
            if name in ignored or rule.key not in nodes[name].labels:
                continue
            if rule.key == HOSTNAME:
                matching = rule.count(cluster.infos[name], pod.namespace)
            else:
                matching = count[nodes[name].labels[rule.key]]
            total += float(matching) * weight + float(rule.constraint.max_skew - 1)
        raw[name] = math.floor(total + 0.5) if total % 1 >= 0.5 else math.floor(total)
    return raw, _normalized(raw, ignored)


def _around(
    rule: Rule,
    soft: Sequence[Rule],
    pod: Pod,
    cluster: NaiveCluster,
    values: set[str],
    *,
    all_needed: bool,
) -> dict[str, int]:
    """Matching pods per value, on all nodes but only for values that feasible nodes have."""
    count = dict.fromkeys(values, 0)
    for info in cluster.infos.values():
        if info.node is None or (all_needed and not has_all_keys(info.node, soft)):
            continue
        value = info.node.labels.get(rule.key, "")
        if value in count and rule.takes_in(pod, info.node):
            count[value] += rule.count(info, pod.namespace)
    return count


def _normalized(raw: Mapping[str, int], ignored: set[str]) -> dict[str, int]:
    scored = [score for name, score in raw.items() if name not in ignored]
    largest, smallest = max([0, *scored]), min(scored, default=0)
    result = {}
    for name, score in raw.items():
        if name in ignored:
            result[name] = 0
        elif largest == 0:
            result[name] = 100
        else:
            result[name] = truncated(100 * (largest + smallest - score), largest)
    return result
