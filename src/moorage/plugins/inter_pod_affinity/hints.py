"""Which changes of pods and nodes could let a pod rejected for its company try again."""

from collections.abc import Collection

from moorage.framework.cluster_events import Subjects
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import matches_all, matches_any


def after_pod_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    """A friend that came, a foe that went, or labels that changed either way."""
    before = old if isinstance(old, Pod) else None
    after = new if isinstance(new, Pod) else None
    if any(other is not None and not _placed(other) for other in (before, after)):
        return False
    terms = pod.affinity_terms
    friends, foes = terms.affinity, terms.anti_affinity
    if before is not None and after is not None:
        joined = not matches_all(friends, before) and matches_all(friends, after)
        left = matches_any(foes, before) and not matches_any(foes, after)
        return joined or left
    if after is not None:
        return matches_all(friends, after)
    return before is not None and (
        matches_any(foes, before) or matches_any(before.affinity_terms.anti_affinity, pod)
    )


def _wanted_labels(pod: Pod) -> Collection[str] | None:
    """Labels of which a friend must have one; None if that cannot be told, none without friends."""
    terms = pod.affinity_terms.affinity
    for term in terms:
        for requirement in term.selector.requirements:
            if requirement.operator == "In":
                return [f"{requirement.key}={value}" for value in requirement.values]
    return None if terms else ()


def _labels_of_newcomer(old: ApiObject | None, new: ApiObject | None) -> Collection[str] | None:
    """The labels of a pod that came; a pod that changes or goes may concern anybody."""
    if old is None and isinstance(new, Pod):
        return [f"{key}={value}" for key, value in new.labels.items()]
    return None


FRIENDS = Subjects(_wanted_labels, _labels_of_newcomer)
"""Pods wait by the thousand for friends of their own, and every pod that is placed is news."""


def after_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    """A node that enters a domain the pod wants to be in, or leaves one it must avoid."""
    if not isinstance(new, Node):
        return False
    terms = pod.affinity_terms
    if not isinstance(old, Node):
        wanted = any(term.topology_key in new.labels for term in terms.affinity)
        return wanted or bool(terms.anti_affinity)
    for term in terms.affinity:
        now = new.labels.get(term.topology_key)
        if now is not None and now != old.labels.get(term.topology_key):
            return True
    for term in terms.anti_affinity:
        before = old.labels.get(term.topology_key)
        if before is not None and before != new.labels.get(term.topology_key):
            return True
    return False


def _placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
