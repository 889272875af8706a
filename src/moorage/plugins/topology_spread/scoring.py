"""Soft constraints: fewer matching pods in a node's domains is better."""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.coded import LabelColumn
from moorage.cluster.columns import Bools, Codes, Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.model.node import HOSTNAME_LABEL
from moorage.model.pod import Pod
from moorage.plugins.topology_spread.constraints import (
    SpreadConstraint,
    all_topologies,
    domains_of_labelled,
)


class SoftConstraint(msgspec.Struct, frozen=True):
    """One constraint: how much a matching pod weighs, and how many each domain has."""

    constraint: SpreadConstraint
    weight: float
    counts: Ints | None
    """Over label codes; None for the hostname, where each node counts for itself."""


class SoftState(msgspec.Struct, frozen=True):
    """What `score` and `normalize` need to know."""

    constraints: tuple[SoftConstraint, ...]
    ignored: Bools
    """Feasible nodes that lack a topology key: they score 0."""
    none_ignored: bool = False
    """Is it known that every node has every key?"""


def count_domains(
    constraints: tuple[SpreadConstraint, ...],
    pod: Pod,
    feasible: NodeView,
    *,
    require_all: bool,
    comparisons: bool,
) -> SoftState:
    """Count matching pods on all nodes, for the domains that feasible nodes are in."""
    simple = _from_domain_sums(constraints, pod, feasible)
    if simple is not None:
        return SoftState(simple, np.zeros(len(feasible), np.bool_), none_ignored=True)
    everywhere = feasible.whole
    ignored = np.zeros(len(feasible), np.bool_)
    labelled: Bools | None = None
    if require_all:
        ignored = ~all_topologies(constraints, feasible)
        labelled = all_topologies(constraints, everywhere)
    soft = []
    for constraint in constraints:
        if constraint.topology_key == HOSTNAME_LABEL:
            size = len(feasible) - int(np.count_nonzero(ignored))
            soft.append(SoftConstraint(constraint, math.log(size + 2), None))
            continue
        near = feasible.label(constraint.topology_key)
        wanted = np.zeros(len(near.vocabulary), np.bool_)
        wanted[_domain_codes(near)[~ignored]] = True
        label = everywhere.label(constraint.topology_key)
        codes = _domain_codes(label)
        taking_part = wanted[codes]
        if labelled is not None:
            taking_part &= labelled
        included = constraint.includes(pod, everywhere, comparisons=comparisons)
        if included is not None:
            taking_part &= included
        sums = constraint.sums(pod.namespace, everywhere, codes, taking_part)
        size = int(np.count_nonzero(wanted))
        soft.append(SoftConstraint(constraint, math.log(size + 2), sums))
    return SoftState(tuple(soft), ignored)


def _from_domain_sums(
    constraints: tuple[SpreadConstraint, ...], pod: Pod, feasible: NodeView
) -> tuple[SoftConstraint, ...] | None:
    """The same from the sums per domain; None unless every node has every key and takes part."""
    everywhere = feasible.whole
    soft = []
    for constraint in constraints:
        if constraint.selector.empty or not constraint.includes_all(pod):
            return None
        known = constraint.per_domain(pod.namespace, everywhere)
        label = everywhere.label(constraint.topology_key)
        if known.exist[0] or label.vocabulary.find("") is not None:
            return None
        if constraint.topology_key == HOSTNAME_LABEL:
            soft.append(SoftConstraint(constraint, math.log(len(feasible) + 2), None))
            continue
        codes = feasible.label(constraint.topology_key).codes
        wanted = domains_of_labelled(codes, len(label.vocabulary))
        size = int(np.count_nonzero(wanted))
        soft.append(SoftConstraint(constraint, math.log(size + 2), known.sums * wanted))
    return tuple(soft)


def score(state: SoftState, pod: Pod, feasible: NodeView) -> Ints:
    """The weighted number of matching pods around each node, rounded."""
    only = state.constraints[0]
    if len(state.constraints) == 1 and only.counts is not None and state.none_ignored:
        # All nodes of a domain score alike.
        codes = feasible.label(only.constraint.topology_key).codes
        return _rounded(_points(only, only.counts)).take(codes)
    total: NDArray[np.float64] = np.zeros(len(feasible), np.float64)
    for soft in state.constraints:
        constraint = soft.constraint
        label = feasible.label(constraint.topology_key)
        if soft.counts is None:
            points = _points(soft, constraint.count(pod.namespace, feasible))
        else:
            points = _points(soft, soft.counts)[_domain_codes(label)]
        total += points if state.none_ignored else np.where(label.present, points, 0.0)
    rounded = _rounded(total)
    return rounded if state.none_ignored else np.where(state.ignored, 0, rounded)


def _points(soft: SoftConstraint, counts: Ints) -> NDArray[np.float64]:
    points: NDArray[np.float64] = np.add(counts * soft.weight, soft.constraint.max_skew - 1.0)
    return points


def _rounded(total: NDArray[np.float64]) -> Ints:
    whole = np.floor(total)
    # Go rounds halves away from zero, NumPy to even; the total is never negative.
    return (whole + (total - whole >= 0.5)).astype(np.int64)


def normalize(scores: Ints, state: SoftState) -> Ints:
    """Turn "many" into "bad": 100 for the emptiest surroundings, 0 for ignored nodes."""
    scored = scores if state.none_ignored else scores[~state.ignored]
    if not len(scored):
        return np.zeros_like(scores)
    smallest, largest = int(scored[scored.argmin()]), max(int(scored[scored.argmax()]), 0)
    if largest:
        np.subtract(largest + smallest, scores, out=scores)
        scores *= MAX_NODE_SCORE
        scores //= largest
    else:
        scores.fill(MAX_NODE_SCORE)
    return scores if state.none_ignored else np.where(state.ignored, 0, scores)


def _domain_codes(label: LabelColumn) -> Codes:
    """Codes by which domains are told apart: upstream sees an absent label as an empty one."""
    empty = label.vocabulary.find("")
    return label.codes if empty is None else np.where(label.codes == empty, 0, label.codes)
