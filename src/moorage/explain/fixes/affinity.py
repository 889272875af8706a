"""Required pod affinity and anti-affinity: which term to drop, or whose to make way for."""

from collections.abc import Iterator, Sequence

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.pod_terms import TermEntry, TermKind, terms_of
from moorage.cluster.view import NodeView
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import RELAX, Change, counted
from moorage.explain.fixes.moving import moved
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import remove
from moorage.model.affinity import PodAffinity, PodAffinityTerm
from moorage.model.labels import LabelSelector
from moorage.model.pod import Pod

PLUGIN = "InterPodAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_MOVED = 3
_MOST_DOMAINS = 3


def drop_pod_affinity(
    bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools
) -> Iterator[Change]:
    """Drop one of the pod's own required terms, or all of a kind."""
    del bench, obstacles
    affinity = pod.spec.affinity
    if affinity is None or not rows.any():
        return
    everything = []
    for field, word, side in (
        ("podAffinity", "pod affinity", affinity.pod_affinity),
        ("podAntiAffinity", "pod anti-affinity", affinity.pod_anti_affinity),
    ):
        terms = _terms(side)
        for i, term in enumerate(terms):
            text = f"drop the required {word} {written(term)}"
            operation = remove("spec", "affinity", field, _REQUIRED, i)
            yield Change(RELAX, text, 1.2, (PLUGIN,), (operation,))
        if len(terms) > 1:
            text = f"drop all {counted(len(terms), f'required {word} term')}"
            operation = remove("spec", "affinity", field, _REQUIRED)
            yield Change(RELAX, text, 1.0 + 0.7 * len(terms), (PLUGIN,), (operation,))
        if terms:
            everything.append(remove("spec", "affinity", field, _REQUIRED))
    if len(everything) > 1:
        text = "drop all required pod affinity and anti-affinity"
        yield Change(RELAX, text, 3.5, (PLUGIN,), tuple(everything))


def move_opponents(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Move the pods whose anti-affinity keeps the pod out of a domain, where they are fewest."""
    del bench
    nodes = obstacles.nodes
    entries = [
        entry
        for entry in nodes.terms_matching(pod)
        if entry.pod_term.kind is TermKind.ANTI_AFFINITY
    ]
    opponents: Ints = np.zeros(len(nodes), np.int64)
    for entry in entries:
        codes = nodes.label(entry.pod_term.term.topology_key).codes
        sums = nodes.terms_per_domain(entry).sums
        opponents += np.where(codes > 0, sums[codes], 0)
    places = np.flatnonzero(rows & (opponents > 0) & (opponents <= _MOST_MOVED))
    tried: set[tuple[str, ...]] = set()
    for row in places[np.argsort(opponents[places], kind="stable")]:
        gone = _carriers(nodes, entries, int(row))
        keys = tuple(other.key for other in gone)
        if gone and keys not in tried:
            tried.add(keys)
            yield moved(gone, "whose anti-affinity keeps the pod out", PLUGIN)
        if len(tried) >= _MOST_DOMAINS:
            return


def _carriers(nodes: NodeView, entries: Sequence[TermEntry], row: int) -> list[Pod]:
    """The pods in the row's domains that carry one of the terms."""
    found: dict[str, Pod] = {}
    for entry in entries:
        codes = nodes.label(entry.pod_term.term.topology_key).codes
        if codes[row] == 0:
            continue
        holders = (codes == codes[row]) & (entry.column.values > 0)
        for place in np.flatnonzero(holders):
            for other in nodes.pods_on(int(place)):
                if any(term == entry.pod_term for term in terms_of(other)):
                    found[other.uid] = other
    return list(found.values())


def _terms(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    if side is None:
        return ()
    return side.required_during_scheduling_ignored_during_execution


def written(term: PodAffinityTerm) -> str:
    """A term as people say it: `with app=web per topology.kubernetes.io/zone`."""
    return f"({selector_text(term.label_selector)} per {term.topology_key})"


def selector_text(selector: LabelSelector | None) -> str:
    """A label selector as kubectl writes it."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        values = f" ({','.join(expression.values)})" if expression.values else ""
        parts.append(f"{expression.key} {expression.operator}{values}")
    return ",".join(parts) or "all pods"
