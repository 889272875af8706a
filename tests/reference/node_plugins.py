"""The plugins that look at one node at a time and at nothing but the node and its ports."""

from collections.abc import Sequence

from moorage.model.node import Node
from moorage.model.node_selector import NodeAffinitySpec
from moorage.model.pod import Pod
from moorage.model.taints import Taint, Toleration
from reference.answers import (
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Refusal,
    Skip,
    to_largest,
)
from reference.cluster import NaiveNode, Port, ports_of
from reference.selectors import admits, any_term_matches, required_terms, term_matches

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


# Taints


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Does a toleration answer a taint (without the comparison operators, off by default)?"""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Is there a taint that keeps the pod out?"""
    for taint in taints:
        if taint.effect not in ("NoSchedule", "NoExecute"):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return True
    return False


def refuse_unschedulable(pod: Pod, node: Node) -> Refusal | None:
    """NodeUnschedulable."""
    tolerated = any(tolerates(toleration, CORDON) for toleration in pod.spec.tolerations)
    if node.spec.unschedulable and not tolerated:
        return Refusal(UNRESOLVABLE, ("node(s) were unschedulable",))
    return None


def refuse_tainted(pod: Pod, node: Node) -> Refusal | None:
    """TaintToleration."""
    if untolerated(node.spec.taints, pod.spec.tolerations):
        return Refusal(UNRESOLVABLE, ("node(s) had untolerated taint(s)",))
    return None


def score_taints(pod: Pod, node: Node) -> int:
    """TaintToleration: soft taints that no toleration answers."""
    count = 0
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule":
            continue
        answered = False
        for toleration in pod.spec.tolerations:
            if toleration.effect in ("", "PreferNoSchedule") and tolerates(toleration, taint):
                answered = True
        count += not answered
    return count


def normalize_taints(scores: dict[str, int]) -> dict[str, int]:
    """TaintToleration: fewer is better."""
    return to_largest(scores, reverse=True)


# Names


def refuse_other_name(pod: Pod, node: Node) -> Refusal | None:
    """NodeName."""
    if pod.spec.node_name not in ("", node.name):
        return Refusal(UNRESOLVABLE, ("node(s) didn't match the requested node name",))
    return None


# Node affinity


def affinity_applies(pod: Pod, added: NodeAffinitySpec | None) -> bool:
    """Does NodeAffinity have anything to check?"""
    enforced = added is not None and added.required is not None
    return bool(pod.spec.node_selector) or required_terms(pod) is not None or enforced


def named_nodes(pod: Pod) -> set[str] | None:
    """The only nodes the pod can mean, if every term names nodes; None if one does not."""
    required = required_terms(pod)
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        sets = [
            set(expression.values)
            for expression in term.match_fields
            if expression.key == "metadata.name" and expression.operator == "In"
        ]
        if not sets:
            return None
        names |= set.intersection(*sets)
    return names


def refuse_affinity(pod: Pod, node: Node, added: NodeAffinitySpec | None) -> Refusal | None:
    """NodeAffinity."""
    enforced = added.required if added is not None else None
    if enforced is not None and not any_term_matches(enforced, node):
        return Refusal(UNRESOLVABLE, ("node(s) didn't match scheduler-enforced node affinity",))
    if not admits(pod, node):
        return Refusal(UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",))
    return None


def score_affinity(pod: Pod, node: Node, added: NodeAffinitySpec | None) -> int | Skip:
    """NodeAffinity: the weights of the wishes a node fulfils."""
    affinity = pod.spec.affinity
    own = affinity.node_affinity if affinity is not None else None
    wishes = [*(own.preferred if own is not None else ())]
    wishes += added.preferred if added is not None else ()
    if not wishes:
        return SKIP
    return sum(wish.weight for wish in wishes if term_matches(wish.preference, node))


def normalize_affinity(scores: dict[str, int]) -> dict[str, int]:
    """NodeAffinity: more is better."""
    return to_largest(scores, reverse=False)


# Host ports


def port_taken(wanted: Port, used: set[Port]) -> bool:
    """Is the port, or one that shares its address, in use?"""
    for other in used:
        if (other.protocol, other.number) != (wanted.protocol, wanted.number):
            continue
        if "0.0.0.0" in (wanted.ip, other.ip) or wanted.ip == other.ip:
            return True
    return False


def refuse_ports(pod: Pod, info: NaiveNode) -> Refusal | None:
    """NodePorts."""
    if any(port_taken(port, info.ports) for port in ports_of(pod)):
        reason = "node(s) didn't have free ports for the requested pod ports"
        return Refusal(UNSCHEDULABLE, (reason,))
    return None


# Declared features


def needed_features(pod: Pod) -> set[str]:
    """The node features that the pod's spec implies."""
    features = set()
    for container in [*pod.spec.containers, *pod.spec.init_containers]:
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                features.add("RestartAllContainersOnContainerExits")
        for mount in container.volume_mounts:
            if mount.bind_mount_options:
                features.add("VolumeBindMountOptions")
    if pod.spec.host_network and pod.spec.host_users is False:
        features.add("UserNamespacesHostNetworkSupport")
    return features


def refuse_features(pod: Pod, node: Node) -> Refusal | None:
    """NodeDeclaredFeatures."""
    for feature in needed_features(pod):
        if feature not in node.status.declared_features:
            return Refusal(UNRESOLVABLE, ("node(s) didn't match Pod's required features",))
    return None
