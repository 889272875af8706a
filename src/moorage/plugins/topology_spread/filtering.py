"""Hard constraints: how many matching pods each domain has, and what one more would do.

A domain is one value of the topology key. Counts are arrays over the codes of that label; code 0
stands for nodes without the label and is never a domain.
"""

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.view import NodeView
from moorage.framework.status import Code, Reason, Verdicts
from moorage.log_fields import Line, V
from moorage.model.pod import Pod
from moorage.plugins.topology_spread.constraints import (
    SpreadConstraint,
    all_topologies,
    domains_of_labelled,
)

SKEWED = Reason("node(s) didn't match pod topology spread constraints")
UNLABELLED = Reason(
    "node(s) didn't match pod topology spread constraints (missing required label)",
    Code.UNRESOLVABLE,
)

_LOGGER = "FilterWithNominatedPods.Filter.PodTopologySpread"
_NO_LABEL = Line(
    V(5),
    "Node doesn't have required topology label for spread constraint",
    *("pod", "node", "topologyKey"),
    logger=_LOGGER,
)
_TOO_SKEWED = Line(
    V(5),
    "Node failed spreadConstraint: matchNum + selfMatchNum - minMatchNum > maxSkew",
    *("pod", "node", "topologyKey", "matchNum", "selfMatchNum", "minMatchNum", "maxSkew"),
    logger=_LOGGER,
)

_UNLABELLED_BIT = 2  # in the verdicts; the other reason's is 1
_NO_DOMAIN = 2**31 - 1


class Domains(msgspec.Struct, frozen=True):
    """The domains of one constraint: which exist, and how many matching pods each has."""

    counts: Ints
    exist: Bools

    def smallest(self, min_domains: int) -> int:
        """The count every other is compared with; 0 while there are too few domains."""
        existing = self.counts[self.exist]
        if len(existing) < min_domains:
            return 0
        return int(existing.min()) if len(existing) else _NO_DOMAIN

    def plus(self, code: int, amount: int) -> "Domains":
        """The same with pods added to (or removed from) one domain."""
        counts = self.counts.copy()
        counts[code] += amount
        return Domains(counts, self.exist)


class HardState(msgspec.Struct, frozen=True):
    """What `filter` needs to know."""

    constraints: tuple[SpreadConstraint, ...]
    domains: tuple[Domains, ...]


def count_domains(
    constraints: tuple[SpreadConstraint, ...], pod: Pod, nodes: NodeView, *, comparisons: bool
) -> HardState:
    """Count the matching pods of every domain over the nodes that take part."""
    kept = _kept_sums(constraints, pod, nodes)
    if kept is not None:
        return HardState(constraints, kept)
    labelled = all_topologies(constraints, nodes)
    domains = []
    for constraint in constraints:
        included = constraint.includes(pod, nodes, comparisons=comparisons)
        taking_part = labelled if included is None else labelled & included
        label = nodes.label(constraint.topology_key)
        exist = domains_of_labelled(label.codes.compress(taking_part), len(label.vocabulary))
        sums = constraint.sums(pod.namespace, nodes, label.codes, taking_part)
        domains.append(Domains(sums, exist))
    return HardState(constraints, tuple(domains))


def _kept_sums(
    constraints: tuple[SpreadConstraint, ...], pod: Pod, nodes: NodeView
) -> tuple[Domains, ...] | None:
    """The same from sums that are kept; None if some node takes part in one domain only."""
    domains = []
    for constraint in constraints:
        if constraint.selector.empty or not constraint.includes_all(pod):
            return None
        kept = constraint.per_domain(pod.namespace, nodes)
        exist = kept.exist
        if exist[0]:
            if len(constraints) > 1:
                return None  # a node without one label does not count for the others either
            exist = exist.copy()
            exist[0] = False
        domains.append(Domains(kept.sums, exist))
    return tuple(domains)


def with_pod(
    state: HardState,
    pod: Pod,
    other: Pod,
    nodes: NodeView,
    row: int,
    sign: int,
    *,
    comparisons: bool,
) -> HardState:
    """The state with another pod added to or removed from a node.

    Unlike the first count this does not ask whether the other pod is terminating, nor whether the
    selector is empty: upstream's incremental path does not either.
    """
    if other.namespace != pod.namespace:
        return state
    one = nodes.take(np.array([row]))
    if not all_topologies(state.constraints, one)[0]:
        return state
    domains = list(state.domains)
    for i, constraint in enumerate(state.constraints):
        if not constraint.selector.matches(other.labels):
            continue
        included = constraint.includes(pod, one, comparisons=comparisons)
        if included is not None and not included[0]:
            continue
        domains[i] = domains[i].plus(int(one.label(constraint.topology_key).codes[0]), sign)
    return HardState(state.constraints, tuple(domains))


def _most(constraint: SpreadConstraint, domains: Domains, pod: Pod) -> int:
    """How many matching pods a domain may have for one more to be allowed there."""
    smallest = domains.smallest(constraint.min_domains)
    return constraint.max_skew + smallest - _self_match(constraint, pod)


def _self_match(constraint: SpreadConstraint, pod: Pod) -> int:
    return 1 if constraint.selector.matches(pod.labels) else 0


def judge(state: HardState, pod: Pod, nodes: NodeView) -> Verdicts:
    """The first constraint that a node violates decides."""
    verdicts = Verdicts(len(nodes), (SKEWED, UNLABELLED))
    decided = None
    for constraint, domains in zip(state.constraints, state.domains, strict=True):
        table = (domains.counts > _most(constraint, domains, pod)).astype(np.uint8)
        table[0] = _UNLABELLED_BIT  # no domain at all
        here = table.take(nodes.label(constraint.topology_key).codes)
        decided = here if decided is None else np.where(decided, decided, here)
    if decided is not None:
        verdicts.bits = decided
    return verdicts


def log_rejections(state: HardState, pod: Pod, nodes: NodeView, rows: Rows) -> None:
    """Log which constraint each of these nodes violates, and how."""
    for row in rows.tolist():
        node = nodes.node(row)
        for constraint, domains in zip(state.constraints, state.domains, strict=True):
            key = constraint.topology_key
            code = int(nodes.label(key).codes[row])
            if not code:
                _NO_LABEL(pod, node, key)
                break
            count, self_match = int(domains.counts[code]), _self_match(constraint, pod)
            if count > _most(constraint, domains, pod):
                smallest = domains.smallest(constraint.min_domains)
                _TOO_SKEWED(pod, node, key, count, self_match, smallest, constraint.max_skew)
                break
