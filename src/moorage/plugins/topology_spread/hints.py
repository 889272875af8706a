"""Which changes of pods and nodes could let a pod rejected for its spread try again."""

from collections.abc import Callable

from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.topology_spread.constraints import SpreadConstraint

Constraints = Callable[[Pod], tuple[SpreadConstraint, ...]]


class SpreadHints:
    """Hints for the hard constraints of a rejected pod."""

    def __init__(self, constraints: Constraints) -> None:
        self._constraints = constraints

    def pod_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        """A pod that came, went, or changed its labels."""
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        if any(other is not None and not _involved(other, pod) for other in (before, after)):
            return False
        constraints = self._constraints(pod)
        if before is not None and after is not None:
            return _relabelled(before, after, constraints)
        other = after or before
        return other is not None and any(c.selector.matches(other.labels) for c in constraints)

    def own_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        """The pod tolerates more where taints count, or its labels changed."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return True
        constraints = self._constraints(pod)
        if old.spec.tolerations != new.spec.tolerations and any(
            c.honors_taints for c in constraints
        ):
            return True
        return _relabelled(old, new, constraints)

    def node_change(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        """A node that joins or leaves the domains, or moves between them."""
        constraints = self._constraints(pod)
        before = old if isinstance(old, Node) else None
        after = new if isinstance(new, Node) else None
        had, has = _labelled(before, constraints), _labelled(after, constraints)
        if before is None or after is None:
            return had or has
        if had != has:
            return True
        moved = any(
            before.labels.get(c.topology_key, "") != after.labels.get(c.topology_key, "")
            for c in constraints
        )
        return has and (moved or before.spec.taints != after.spec.taints)


def _relabelled(before: Pod, after: Pod, constraints: tuple[SpreadConstraint, ...]) -> bool:
    """Does a pod match a constraint that it did not match before, or the other way round?"""
    return before.labels != after.labels and any(
        c.selector.matches(before.labels) != c.selector.matches(after.labels) for c in constraints
    )


def _involved(other: Pod, pod: Pod) -> bool:
    placed = other.spec.node_name or other.status.nominated_node_name
    return bool(placed) and other.namespace == pod.namespace


def _labelled(node: Node | None, constraints: tuple[SpreadConstraint, ...]) -> bool:
    return node is not None and all(c.topology_key in node.labels for c in constraints)
